//! Opens a run: its lane, the lease, W0; or takes over an interrupted turn.
//!
//! It must never let a request be sent before the turn is stored, if the engine journals
//! (docs/rules/sessions-and-ledger.md#commit-points).

use std::sync::Arc;
use std::time::Duration;

use super::driver::Driver;
use super::model_turn;
use crate::engine::active_run::ActiveRun;
use crate::engine::context::{Session, storage_error};
use crate::engine::limits::Prepayment;
use crate::engine::shared::JournalMode;
use crate::engine::state::{
    JournalState, LaneTicket, LeasedTurn, Recorder, Run, RunUsage, Unfinished,
};
use model::{Journal, OpenTurn, Opened, PortFuture, StorageError, StorageErrorKind, TurnOpening};
use turn::machine::{Event, Interrupt, Machine, Tick};

/// The interval at which a session that another process runs is tried again, where the journal learns of no change in other
/// processes. Within one process nothing is polled.
const BUSY: Duration = Duration::from_millis(25);

/// Why a run has no session.
pub(super) enum NotEntered {
    /// The run ends with this event.
    Ends(Box<Event>),
    /// Its turn, which was parked, has ended elsewhere.
    Ended,
}

impl From<Box<Event>> for NotEntered {
    fn from(event: Box<Event>) -> Self {
        Self::Ends(event)
    }
}

/// Waits for the session, reads it and opens the turn.
pub(super) async fn enter(
    driver: &mut Driver,
    ticket: Option<LaneTicket>,
    machine: &mut Machine,
    usage: &mut RunUsage,
) -> Result<Session, NotEntered> {
    let active = &driver.active;
    let lane = match ticket {
        Some(ticket) => Some(active.guard(ticket.enter()).await.map_err(interrupted)?),
        None => None,
    };
    let journal = active.shared.journal.clone();
    let mut session = match (&journal, active.shared.mode) {
        (Some(journal), _) if active.run.resumes => {
            take_over(driver, journal, machine, usage).await?
        }
        (Some(journal), JournalMode::Full) => open(driver, journal, machine).await?,
        (Some(_), JournalMode::Final) | (None, _) => read_session(driver).await?,
    };
    session.head.lane = lane;
    let run = &driver.active.run;
    run.control.opened(&run.turn_id);
    Ok(session)
}

async fn read_session(driver: &Driver) -> Result<Session, Box<Event>> {
    let active = &driver.active;
    let reading = driver.session_reader();
    let read = active.try_guard(reading.read(&active.run)).await;
    read.map_err(unfinished)
}

fn unfinished(unfinished: Unfinished<StorageError>) -> Box<Event> {
    match unfinished {
        Unfinished::Interrupted(cause) => interrupted(cause),
        Unfinished::Failed(error) => broken(error),
    }
}

/// Appends the messages of the turn that the conversation does not have.
pub(super) fn push_messages(active: &ActiveRun, machine: &Machine, session: &mut Session) {
    let fresh = machine.messages().get(session.pushed..).unwrap_or_default();
    session.conversation.push_current(fresh, active.run.target.provider.as_ref());
    session.pushed = machine.messages().len();
}

/// The reservation of the first call of a run with a budget, for W0.
async fn prepay<'a>(
    active: &'a ActiveRun,
    machine: &Machine,
    session: &mut Session,
    opening: &TurnOpening,
) -> Option<Prepayment<'a>> {
    push_messages(active, machine, session);
    model_turn::prepay(active, session, Some(&opening.items)).await
}

/// W0. Reads the session again if another process has moved it, and waits while another process runs it.
async fn open(
    driver: &Driver,
    journal: &Arc<dyn Journal>,
    machine: &Machine,
) -> Result<Session, Box<Event>> {
    let active = &driver.active;
    let run = &driver.active.run;
    let label = &run.context.session_label;
    let mut waiting = Waiting { journal, label, waits: false, change: None };
    loop {
        let mut session = read_session(driver).await?;
        let opening = run.opening(&session.head);
        loop {
            // A planner may run tools first.
            let prepayment = if active.has_budget() && run.context.planner.is_none() {
                Box::pin(prepay(active, machine, &mut session, &opening)).await
            } else {
                None
            };
            // Not under the guard: if this future were dropped, the turn would be open without an owner.
            let begun = match &prepayment {
                None => journal.begin(Box::new(opening.clone())).await.map(|opened| (opened, None)),
                Some(prepayment) => {
                    let reservation = prepayment.reservation();
                    journal.begin_reserving(Box::new(opening.clone()), reservation).await
                }
            };
            let (begun, reserved) = match begun {
                Ok((opened, reserved)) => (Ok(opened), reserved),
                Err(error) => (Err(error), None),
            };
            // Nothing is reserved while the session is waited for.
            if let Some(prepayment) = prepayment
                && matches!(begun, Ok(Opened::Leased(_)))
            {
                prepayment.stored(reserved);
            }
            match begun {
                Ok(Opened::Leased(epoch)) => {
                    waiting.waits = false;
                    let leased = LeasedTurn {
                        turn_id: &run.turn_id,
                        session_label: &run.context.session_label,
                        epoch,
                    };
                    let recorder =
                        Recorder::new(journal, &run.tool_set, leased, opening.messages.len());
                    session.head.journal = JournalState::Open(Box::new(recorder));
                    if run.queued.is_some() {
                        run.control.set_open();
                    }
                    return Ok(session);
                }
                Ok(Opened::Busy) => {
                    waiting.waits = true;
                    waiting.pause(active).await?;
                }
                Ok(Opened::Moved) => break,
                Err(error) if error.kind == StorageErrorKind::DuplicateRun => {
                    run.control.refuse(error.clone());
                    return Err(broken(error));
                }
                Ok(Opened::Parked(turn)) => return Err(broken(awaits(run, &turn))),
                // A message of a queue is answered by a turn that has taken it, or later.
                Err(error)
                    if error.kind == StorageErrorKind::UnknownTurn || run.queued.is_some() =>
                {
                    return Err(broken(error));
                }
                // The answer is still delivered (docs/rules/sessions-and-ledger.md#storage-errors).
                Err(error) => {
                    session.head.journal = JournalState::Refused(error);
                    return Ok(session);
                }
            }
        }
    }
}

/// A run in the queue for its session, which other processes use too. Dropping it leaves the queue.
struct Waiting<'a> {
    journal: &'a Arc<dyn Journal>,
    label: &'a str,
    waits: bool,
    /// A change of the session since before the last look at it.
    change: Option<PortFuture<'static, ()>>,
}

impl Waiting<'_> {
    /// Waits until the session may have become free. The first look after a change is asked for is at once, so that none is missed.
    async fn pause(&mut self, active: &ActiveRun) -> Result<(), Box<Event>> {
        if let Some(change) = self.change.take() {
            active.try_guard(change).await.map_err(unfinished)?;
        }
        self.change = self.journal.session_changed(self.label);
        if self.change.is_none() {
            active.guard(tokio::time::sleep(BUSY)).await.map_err(interrupted)?;
        }
        Ok(())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.journal.stop_waiting(self.label);
        }
    }
}

/// Takes an interrupted turn over, at its last commit point.
async fn take_over(
    driver: &mut Driver,
    journal: &Arc<dyn Journal>,
    machine: &mut Machine,
    usage: &mut RunUsage,
) -> Result<Session, NotEntered> {
    let label = driver.active.run.context.session_label.clone();
    let mut waiting = Waiting { journal, label: &label, waits: false, change: None };
    let mut turn = loop {
        match journal.reopen(&driver.active.run.turn_id).await {
            Ok(Opened::Leased(turn)) => break turn,
            Ok(Opened::Busy | Opened::Moved | Opened::Parked(_)) => {
                waiting.pause(&driver.active).await?;
            }
            Err(error) if driver.continues && error.kind == StorageErrorKind::UnknownTurn => {
                return Err(NotEntered::Ended);
            }
            Err(error) => return Err(broken(error).into()),
        }
    };
    driver.active.run.approvals = std::mem::take(&mut turn.approvals);
    if turn.parent_turn_id.is_none() {
        // It started a thread, if the session had one.
        driver.active.run.leaves.clone_from(&turn.expected_head);
    }
    let active = &driver.active;
    let run = &active.run;
    let recorder = Recorder::resumed(journal, &run.tool_set, &turn);
    run.control.set_open();
    if turn.moved {
        return Err(broken(moved(&turn)).into());
    }
    let mut session = read_session(driver).await?;
    // The head at the begin of the turn; the commit detects a compaction that came between.
    session.head.parent_turn_id.clone_from(&turn.parent_turn_id);
    session.head.expected_head.clone_from(&turn.expected_head);
    session.head.journal = JournalState::Open(Box::new(recorder));
    *machine = Machine::restore(&turn, run.context.max_iterations);
    usage.restore(&turn.progress);
    let clock = &active.shared.clock;
    let mut tick = Tick {
        now_ms: clock.now_ms(),
        new_id: &mut || clock.new_id(),
        remaining: active.remaining(),
    };
    machine.settle_doubt(&turn, &mut tick);
    Ok(session)
}

pub(super) fn interrupted(cause: Interrupt) -> Box<Event> {
    Box::new(Event::Interrupted { cause, partial: None })
}

#[expect(clippy::needless_pass_by_value, reason = "it stands where an error is mapped")]
pub(super) fn broken(error: StorageError) -> Box<Event> {
    Box::new(Event::Broken(storage_error(&error)))
}

fn awaits(run: &Run, turn_id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::AwaitingApproval,
        format!(
            "turn `{turn_id}` of session `{}` waits for an approval; decide about it, or abort the session, and send the \
             message again",
            run.context.session_label
        ),
    )
}

fn moved(turn: &OpenTurn) -> StorageError {
    StorageError::new(
        StorageErrorKind::StaleHead,
        format!(
            "session `{}` has continued since turn `{}` was interrupted; discard the turn, and start a new one",
            turn.session_label, turn.turn_id
        ),
    )
}
