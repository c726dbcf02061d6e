//! The end of a run: the commit, then the terminal event, then the result (RULES §1, "One terminal event").
//!
//! It must never tell of an end that is not committed, or known not to be.

use std::sync::Arc;

use super::call::Spent;
use super::compaction::fit;
use super::driver::Run;
use super::outcome::{self, Ended, Place, millis};
use super::record::Writing;
use super::session::Session;
use super::sink::RecordKind;
use crate::model::{
    AgentPhase, AgentResult, CommitReceipt, Journal, Role, StopReason, StorageError,
    StorageErrorKind, StreamEvent,
};
use crate::telemetry::{self, Instrument as _};
use crate::turn::machine::{Machine, Outcome};

impl Run {
    /// Commits, then tells the end: the terminal event comes after the commit, the result after the event.
    pub(crate) async fn finish(
        &self,
        machine: Machine,
        mut session: Option<Session>,
        spent: Spent,
        undelivered_steering: Vec<String>,
    ) {
        let clock = &self.core.clock;
        let Some(outcome) = machine.outcome().cloned() else { return };
        let ended = Ended {
            turn_id: self.turn_id.clone(),
            duration_ms: millis(clock.instant().saturating_duration_since(self.started)),
            attempts: spent.attempts,
            cost: spent.cost,
            undelivered_steering,
            warnings: spent.warnings.unwrap_or_default().into_iter().chain(spent.notes).collect(),
            compaction: spent.compaction,
            token_budget: spent.budget.map(|budget| fit::settled(budget, machine.usage().2)),
        };
        let stop = outcome.stop_reason;
        let written = match &self.core.journal {
            Some(journal) => {
                Some(self.commit(journal, &machine, &outcome, &ended, &mut session).await)
            }
            None => None,
        };
        let mut result = outcome::result(&self.context, machine, outcome, ended);
        match written {
            Some(Ok(receipt)) => {
                result.persist_error = receipt.stale_head.as_ref().map(outcome::persist_error);
                result.persisted = receipt.stale_head.is_none();
            }
            Some(Err(error)) => result.persist_error = Some(outcome::persist_error(&error)),
            None => {}
        }
        if let Some(error) = &result.persist_error {
            telemetry::storage_failed(&error.code);
        }
        drop(session);
        telemetry::run_ended(&self.turn_id, stop.as_str(), result.duration_ms);
        self.tell_end(stop, &result);
    }

    /// W4.
    async fn commit(
        &self,
        journal: &Arc<dyn Journal>,
        machine: &Machine,
        outcome: &Outcome,
        ended: &Ended,
        session: &mut Option<Session>,
    ) -> Result<CommitReceipt, StorageError> {
        let mut place = Place {
            parent_turn_id: self.context.parent_turn_id.clone(),
            began: session.is_some(),
            started_at: self.started_ms,
            completed_at: self.core.clock.now_ms(),
            ..Place::default()
        };
        match session {
            Some(session) => {
                place.parent_turn_id.clone_from(&session.parent_turn_id);
                place.expected_head.clone_from(&session.expected_head);
            }
            // It was not taken over: what there is of it stays as it is.
            None if self.resumes => {
                return Err(StorageError::new(
                    StorageErrorKind::UnknownTurn,
                    format!("turn `{}` was not resumed, and stays as it was", self.turn_id),
                ));
            }
            // It ended before the session was its own: the row stands beside the session's thread, which goes on.
            None if place.parent_turn_id.is_none() => {
                place.parent_turn_id =
                    journal.head(&self.context.session_label).await.unwrap_or_default();
            }
            None => {}
        }
        let mut commit = outcome::commit(&self.context, machine, outcome, ended, place);
        match session.as_mut().map(|session| &mut session.writing) {
            Some(Writing::Open(recorder)) => {
                recorder.settle().await;
                let news = recorder.news(machine, &[]);
                commit.epoch = Some(recorder.epoch());
                commit.messages = news.messages;
                commit.tool_calls = news.calls.into_iter().map(|call| call.row).collect();
            }
            Some(Writing::AtEnd | Writing::Refused(_)) | None => {
                commit.messages = machine.messages().to_vec();
                commit.tool_calls = machine.calls().map(|call| call.row.clone()).collect();
            }
        }
        let span = telemetry::commit_span(&self.turn_id);
        journal.commit(Box::new(commit)).instrument(span).await
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
