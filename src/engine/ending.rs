//! The end of a run: the commit, then the terminal event, then the result (docs/rules/turns-and-streams.md#terminal-event).
//!
//! It must never tell of an end that is not committed, or known not to be.

use std::sync::Arc;

use super::call::RunUsage;
use super::compaction::fit;
use super::driver::{Run, last_answer};
use super::outcome::{self, Ended, Place, millis};
use super::record::Writing;
use super::session::Session;
use super::sink::RecordKind;
use base::telemetry::{self, Instrument as _};
use model::{
    AgentPhase, AgentResult, Journal, StorageError, StorageErrorKind, StreamEvent, TurnCommit,
    TurnStatus,
};
use turn::machine::{Machine, Outcome};

impl Run {
    /// Commits, then tells the end: the terminal event comes after the commit, the result after the event.
    pub(crate) async fn finish(
        &self,
        machine: Machine,
        mut session: Option<Session>,
        spent: RunUsage,
        undelivered_steering: Vec<String>,
    ) {
        let clock = &self.core.clock;
        let Some(outcome) = machine.outcome().cloned() else { return };
        let ended = Ended {
            turn_id: self.turn_id.clone(),
            duration_ms: millis(clock.instant().saturating_duration_since(self.started)),
            attempts: spent.attempts,
            cost: spent.cost,
            unseen: (spent.unseen, spent.unseen_estimated),
            undelivered_steering,
            warnings: spent
                .warnings
                .unwrap_or_default()
                .into_iter()
                .chain(spent.notes)
                .chain(self.core.journal.iter().flat_map(|journal| journal.warnings()))
                .collect(),
            compaction: spent.compaction,
            cache_breaks: session.as_ref().map_or_else(Vec::new, |it| it.watch.breaks().to_vec()),
            token_budget: spent.budget.map(|budget| fit::settled(budget, machine.usage().2)),
        };
        let stop = outcome.stop_reason;
        let last = self.last_event(&machine, &outcome);
        let whole = TurnStatus::of(stop) == TurnStatus::Completed;
        let cache = session.as_ref().and_then(|session| self.cache_step(session, whole));
        let written = match &self.core.journal {
            Some(journal) => {
                let mut commit =
                    self.commit_of(journal, &machine, &outcome, &ended, &mut session).await;
                if let Ok(commit) = &mut commit {
                    commit.last_event = Some(last.clone());
                    commit.cache.clone_from(&cache);
                }
                let span = telemetry::commit_span(&self.turn_id);
                let written = match commit {
                    Ok(commit) => journal.commit(Box::new(commit)).instrument(span).await,
                    Err(error) => Err(error),
                };
                if written.is_err() {
                    // The turn stays open, and so do its events: this end is told, and not kept.
                    self.queue.forget();
                }
                Some(written)
            }
            None => None,
        };
        let at_turn = |head: &Option<String>| head.as_ref() == Some(&self.turn_id);
        let stands = written
            .as_ref()
            .is_none_or(|written| written.as_ref().is_ok_and(|receipt| at_turn(&receipt.head)));
        if let Some(chain) = cache.and_then(|cache| cache.chain).filter(|_| stands) {
            self.core.chains.put(&self.context.session_label, chain);
        }
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
        self.tell_end(last, &result);
    }

    /// What W4 writes.
    async fn commit_of(
        &self,
        journal: &Arc<dyn Journal>,
        machine: &Machine,
        outcome: &Outcome,
        ended: &Ended,
        session: &mut Option<Session>,
    ) -> Result<TurnCommit, StorageError> {
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
        Ok(commit)
    }

    /// The terminal event, without its number.
    fn last_event(&self, machine: &Machine, outcome: &Outcome) -> StreamEvent {
        if outcome::is_failure(outcome.stop_reason) {
            let error =
                outcome.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
            return StreamEvent::StreamError { error, partial: self.queue.spoke(), seq: 0 };
        }
        StreamEvent::StreamEnd {
            run_id: self.context.run_id.clone(),
            r#final: true,
            message_id: last_answer(machine),
            seq: 0,
        }
    }

    fn tell_end(&self, last: StreamEvent, result: &AgentResult) {
        self.queue.phase(AgentPhase::End, self.core.clock.now_ms());
        self.queue.event(|seq| last.numbered(seq));
        let json = serde_json::to_string(result).unwrap_or_default();
        self.queue.host(RecordKind::Result, &json);
    }
}
