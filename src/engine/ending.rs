//! The end of a run: the commit, then the terminal event, then the result (RULES §1, "One terminal event").
//!
//! It must never tell of an end that is not committed, or known not to be.

use super::call::Spent;
use super::driver::Run;
use super::outcome::{self, Ended, millis};
use super::session::Session;
use super::sink::RecordKind;
use crate::model::{
    AgentPhase, AgentResult, Role, StopReason, StorageErrorKind, StreamEvent, TurnCommit,
};
use crate::telemetry::{self, Instrument as _};
use crate::turn::machine::Machine;

impl Run {
    /// Commits, then tells the end: the terminal event comes after the commit, the result after the event.
    pub(crate) async fn finish(
        &self,
        machine: Machine,
        session: Option<Session>,
        spent: Spent,
        undelivered_steering: Vec<String>,
    ) {
        let clock = &self.core.clock;
        let Some(outcome) = machine.outcome().cloned() else { return };
        let ended = Ended {
            turn_id: self.turn_id.clone(),
            parent_turn_id: session
                .as_ref()
                .map_or(&self.context.parent_turn_id, |session| &session.parent_turn_id)
                .clone(),
            expected_head: session.as_ref().and_then(|session| session.expected_head.clone()),
            started_at: self.started_ms,
            completed_at: clock.now_ms(),
            duration_ms: millis(clock.instant().saturating_duration_since(self.started)),
            attempts: spent.attempts,
            cost: spent.cost,
            undelivered_steering,
        };
        let stop = outcome.stop_reason;
        let journal = self.core.journal.as_ref();
        let began = session.is_some();
        let (mut result, commit) =
            outcome::build(&self.context, machine, outcome, ended, journal.map(|_| began));
        if let (Some(journal), Some(mut commit)) = (journal, commit) {
            if !began && commit.parent_turn_id.is_none() {
                // It ended before the session was its own: the row stands beside the session's thread, which goes on.
                commit.parent_turn_id =
                    journal.head(&self.context.session_label).await.unwrap_or_default();
            }
            let span = telemetry::commit_span(&self.turn_id);
            let aside = TurnCommit { move_pointer: false, ..commit.as_ref().clone() };
            let mut committed = journal.commit(commit).instrument(span).await;
            if let Err(error) = &committed {
                telemetry::storage_failed(error.kind.code());
                result.persist_error = Some(outcome::persist_error(error));
                if error.kind == StorageErrorKind::StaleHead {
                    // Another process moved the session meanwhile: the turn is kept beside its thread, which is not forked.
                    committed = journal.commit(Box::new(aside)).await;
                }
            }
            result.persisted = committed.is_ok() && result.persist_error.is_none();
        }
        drop(session);
        telemetry::run_ended(&self.turn_id, stop.as_str(), result.duration_ms);
        self.tell_end(stop, &result);
    }

    fn tell_end(&self, stop: StopReason, result: &AgentResult) {
        self.queue.phase(AgentPhase::End, self.core.clock.now_ms());
        if outcome::is_failure(stop) {
            let error =
                result.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
            let partial = self.queue.spoke();
            self.queue.event(|seq| StreamEvent::StreamError { error, partial, seq });
        } else {
            let answer = result.messages.iter().rfind(|message| message.role == Role::Assistant);
            self.message_ended(answer.map(|message| message.id.clone()), true);
        }
        let json = serde_json::to_string(result).unwrap_or_default();
        self.queue.host(RecordKind::Result, &json);
    }
}
