//! The beginning of a run: its turn in the session's queue, the lease, W0; or an interrupted turn, taken over.
//!
//! It must never let a request be sent before the turn is on disk, where the engine journals (docs/rules/sessions-and-ledger.md#commit-points).

use std::sync::Arc;
use std::time::Duration;

use super::call::RunUsage;
use super::driver::Run;
use super::record::{Recorder, Writing};
use super::session::{Session, storage_error};
use super::sessions::Place;
use super::{Core, JournalMode};
use model::{
    Journal, OnStaleHead, OpenTurn, Opened, StopReason, StorageError, StorageErrorKind, TurnCommit,
    TurnFacts, TurnOpening, TurnStatus, quoted,
};
use turn::machine::{Event, Machine, Tick};

/// How long a session that another process runs is left alone before it is asked for again. Processes cannot wake each
/// other; within one, nothing is polled.
const BUSY: Duration = Duration::from_millis(25);

impl Run {
    /// Waits for the session, reads it and opens the turn. The event is what the run ends with instead.
    pub(crate) async fn enter(
        &self,
        place: Option<Place>,
        machine: &mut Machine,
        spent: &mut RunUsage,
    ) -> Result<Session, Box<Event>> {
        let lane = match place {
            Some(place) => Some(self.guard(place.enter()).await.map_err(interrupted)?),
            None => None,
        };
        let mut session = match (&self.core.journal, self.core.mode) {
            (Some(journal), _) if self.resumes => self.take_over(journal, machine, spent).await?,
            (Some(journal), JournalMode::Full) => self.open(journal).await?,
            (Some(_), JournalMode::Final) | (None, _) => {
                self.guard(self.read_session()).await.map_err(interrupted)?.map_err(broken)?
            }
        };
        session.lane = lane;
        Ok(session)
    }

    /// W0. Reads again what another process has moved, and waits for one that runs the session.
    async fn open(&self, journal: &Arc<dyn Journal>) -> Result<Session, Box<Event>> {
        let opening = self.opening();
        loop {
            let mut session =
                self.guard(self.read_session()).await.map_err(interrupted)?.map_err(broken)?;
            let mut opening = opening.clone();
            opening.turn.parent_turn_id.clone_from(&session.parent_turn_id);
            opening.turn.expected_head.clone_from(&session.expected_head);
            loop {
                // Not under the guard: dropped, the turn would be open and nobody's.
                match journal.begin(Box::new(opening.clone())).await {
                    Ok(Opened::Leased(epoch)) => {
                        let names = (self.turn_id.as_str(), self.context.session_label.as_str());
                        let recorder = Recorder::new(journal, &self.tool_set, names, epoch, 1);
                        session.writing = Writing::Open(Box::new(recorder));
                        return Ok(session);
                    }
                    Ok(Opened::Busy) => self.pause().await?,
                    Ok(Opened::Moved) => break,
                    Err(error) if error.kind == StorageErrorKind::UnknownTurn => {
                        return Err(broken(error));
                    }
                    // The answer still reaches its reader (docs/rules/sessions-and-ledger.md#storage-errors).
                    Err(error) => {
                        session.writing = Writing::Refused(error);
                        return Ok(session);
                    }
                }
            }
        }
    }

    pub(crate) fn opening(&self) -> TurnOpening {
        let facts = TurnFacts {
            turn_id: self.turn_id.clone(),
            parent_turn_id: None,
            expected_head: None,
            move_pointer: false,
            status: TurnStatus::Streaming,
            stop_reason: StopReason::Error,
            started_at: self.started_ms,
            completed_at: self.started_ms,
            usage: model::TokenUsage::default(),
            usage_estimated: false,
            context_tokens: None,
            cost: None,
            error: None,
            attempts: Vec::new(),
            compaction: None,
        };
        let query = vec![self.context.current_message.clone()];
        let turn = TurnCommit::new(&self.context, facts, &query, 0);
        TurnOpening {
            turn: TurnCommit { messages: query, ..turn },
            context: self.context.kept_json(),
            target: self.context.target.as_ref().map(|target| target.get().to_owned()),
        }
    }

    /// Takes an interrupted turn over, at its last commit point.
    async fn take_over(
        &self,
        journal: &Arc<dyn Journal>,
        machine: &mut Machine,
        spent: &mut RunUsage,
    ) -> Result<Session, Box<Event>> {
        let turn = loop {
            match journal.reopen(&self.turn_id).await {
                Ok(Opened::Leased(turn)) => break turn,
                Ok(Opened::Busy | Opened::Moved) => self.pause().await?,
                Err(error) => return Err(broken(error)),
            }
        };
        let recorder = Recorder::resumed(journal, &self.tool_set, &turn);
        if turn.moved {
            return Err(broken(moved(&turn)));
        }
        let mut session =
            self.guard(self.read_session()).await.map_err(interrupted)?.map_err(broken)?;
        // As the turn began; the commit finds a compaction that came between.
        session.parent_turn_id.clone_from(&turn.parent_turn_id);
        session.expected_head.clone_from(&turn.expected_head);
        session.writing = Writing::Open(Box::new(recorder));
        *machine = Machine::restore(&turn, self.context.max_iterations);
        spent.restore(&turn.progress);
        let clock = &self.core.clock;
        let mut tick = Tick {
            now_ms: clock.now_ms(),
            new_id: &mut || clock.new_id(),
            remaining: self.remaining(),
        };
        machine.settle_doubt(&turn, &mut tick);
        Ok(session)
    }

    async fn pause(&self) -> Result<(), Box<Event>> {
        self.guard(tokio::time::sleep(BUSY)).await.map_err(interrupted)
    }
}

impl Core {
    /// Closes an interrupted turn as failed, keeping what it produced (docs/rules/turns-and-streams.md#session-pointer).
    ///
    /// # Errors
    /// `unknown_turn` for one that is not interrupted; any of storage.
    pub(crate) async fn discard(
        &self,
        journal: &Arc<dyn Journal>,
        turn_id: &str,
        commit: impl FnOnce(&OpenTurn, Machine) -> Result<TurnCommit, StorageError>,
    ) -> Result<(), StorageError> {
        let found = journal.interrupted(Some(turn_id)).await?.pop();
        let turn = found.ok_or_else(|| not_interrupted(turn_id))?;
        let _lane = self.sessions.queue(&turn.session_label).enter().await;
        let Opened::Leased(turn) = journal.reopen(turn_id).await? else {
            return Err(not_interrupted(turn_id));
        };
        let given_back = GiveBack { journal, label: &turn.session_label, epoch: turn.epoch };
        let mut commit = commit(&turn, Machine::restore(&turn, u32::MAX))?;
        commit.epoch = Some(turn.epoch);
        commit.on_stale_head = OnStaleHead::Beside;
        journal.commit(Box::new(commit)).await?;
        drop(given_back);
        Ok(())
    }
}

/// Gives a lease back, whatever comes.
struct GiveBack<'a> {
    journal: &'a Arc<dyn Journal>,
    label: &'a str,
    epoch: i64,
}

impl Drop for GiveBack<'_> {
    fn drop(&mut self) {
        self.journal.release(self.label, self.epoch);
    }
}

pub(super) fn interrupted(cause: turn::machine::Interrupt) -> Box<Event> {
    Box::new(Event::Interrupted { cause, partial: None })
}

#[expect(clippy::needless_pass_by_value, reason = "it stands where an error is mapped")]
pub(super) fn broken(error: StorageError) -> Box<Event> {
    Box::new(Event::Broken(storage_error(&error)))
}

fn moved(turn: &OpenTurn) -> StorageError {
    StorageError::new(
        StorageErrorKind::StaleHead,
        format!(
            "session `{}` has gone on since turn `{}` was interrupted; discard the turn, and ask again",
            turn.session_label, turn.turn_id
        ),
    )
}

fn not_interrupted(turn_id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownTurn,
        format!(
            "turn {} is not an interrupted one; pass an id that `recover()` lists",
            quoted(turn_id)
        ),
    )
}
