//! The end of a run: the commit, then the terminal event, then the result (docs/rules/turns-and-streams.md#terminal-event).
//!
//! It must never emit the end before the commit has succeeded or failed.

use std::sync::Arc;

use super::outcome::{self, Ended, TurnPosition};
use super::permissions;
use crate::engine::active_run::ActiveRun;
use crate::engine::context::{Session, settled_budget};
use crate::engine::events::RecordKind;
use crate::engine::state::{JournalState, RunUsage, millis};
use base::telemetry::{self, Instrument as _};
use model::{
    AgentPhase, AgentResult, Block, CacheBreak, Journal, QueueEnd, StorageError, StorageErrorKind,
    StreamEvent, TurnEnd, TurnStatus, response_message_id,
};
use turn::machine::{Machine, Outcome};

/// Commits, then emits the end: the terminal event comes after the commit, the result after the event.
pub(super) async fn finish(
    active: &ActiveRun,
    machine: Machine,
    mut session: Option<Session>,
    usage: RunUsage,
    undelivered_steering: Vec<String>,
) {
    let (run, shared) = (&active.run, &active.shared);
    let Some(outcome) = machine.outcome().cloned() else { return };
    let breaks = session.as_ref().map_or_else(Vec::new, |it| it.watch.breaks().to_vec());
    let ended = ended(active, &machine, usage, undelivered_steering, breaks);
    let stop = outcome.stop_reason;
    let last = last_event(active, &machine, &outcome, &ended);
    let whole = TurnStatus::of(stop) == TurnStatus::Completed;
    let cache = session.as_ref().and_then(|session| {
        // Only the links that a later run projects identically: none of a shortened conversation, and only those before the
        // turn if the turn is incomplete.
        let comparable = match (session.size.shortened(), whole) {
            (true, _) => Some(0),
            (false, false) => Some(session.conversation.before_turn()),
            (false, true) => None,
        };
        session.watch.step(comparable)
    });
    let written = match &shared.journal {
        Some(journal) => {
            let mut end = turn_end(active, journal, &machine, &outcome, &ended, &mut session).await;
            if let Ok(end) = &mut end {
                end.last_event = Some(last.clone());
                end.cache.clone_from(&cache);
            }
            let span = telemetry::commit_span(&run.turn_id);
            let written = match end {
                Ok(end) => journal.commit(Box::new(end)).instrument(span).await,
                Err(error) => Err(error),
            };
            if written.is_err() {
                // The turn stays open, and so do its events: this end is delivered but not stored.
                active.queue.stop_storing();
            }
            Some(written)
        }
        None => None,
    };
    let at_turn = |head: &Option<String>| head.as_ref() == Some(&run.turn_id);
    let persisted = written
        .as_ref()
        .is_none_or(|written| written.as_ref().is_ok_and(|receipt| at_turn(&receipt.head)));
    if let Some(chain) = cache.and_then(|cache| cache.chain).filter(|_| persisted) {
        shared.chains.put(&run.context.session_label, chain);
    }
    let mut result = outcome::result(&run.context, machine, outcome, ended);
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
    telemetry::run_ended(&run.turn_id, stop.as_str(), result.duration_ms);
    emit_end(active, last.persisted(result.persisted), result);
}

/// The facts of a run whose turn ends, or parks, now.
pub(super) fn ended(
    active: &ActiveRun,
    machine: &Machine,
    usage: RunUsage,
    undelivered_steering: Vec<String>,
    cache_breaks: Vec<CacheBreak>,
) -> Ended {
    let (run, shared) = (&active.run, &active.shared);
    Ended {
        turn_id: run.turn_id.clone(),
        duration_ms: millis(shared.clock.instant().saturating_duration_since(run.started)),
        attempts: usage.attempts,
        cost: usage.cost,
        unseen: usage.unseen,
        unseen_estimated: usage.unseen_estimated,
        undelivered_steering,
        warnings: usage
            .warnings
            .unwrap_or_default()
            .into_iter()
            .chain(usage.notes)
            .chain(shared.journal.iter().flat_map(|journal| journal.warnings()))
            .collect(),
        compaction: usage.compaction,
        cache_breaks,
        token_budget: usage.budget.map(|budget| settled_budget(budget, machine.usage().2)),
        permissions_used: permissions::used(run, machine),
    }
}

/// The end of the turn, with the facts that are not written yet.
async fn turn_end(
    active: &ActiveRun,
    journal: &Arc<dyn Journal>,
    machine: &Machine,
    outcome: &Outcome,
    ended: &Ended,
    session: &mut Option<Session>,
) -> Result<TurnEnd, StorageError> {
    let run = &active.run;
    let mut position = TurnPosition {
        parent_turn_id: run.context.parent_turn_id.clone(),
        began: session.is_some(),
        started_at: run.started_ms,
        completed_at: active.shared.clock.now_ms(),
        ..TurnPosition::default()
    };
    match session {
        Some(session) => {
            position.parent_turn_id.clone_from(&session.head.parent_turn_id);
            position.expected_head.clone_from(&session.head.expected_head);
        }
        // The turn was not taken over, so it stays unchanged.
        None if run.resumes => {
            return Err(StorageError::new(
                StorageErrorKind::UnknownTurn,
                format!("turn `{}` was not resumed, and is unchanged", run.turn_id),
            ));
        }
        // Another turn has the messages of the queue that this one was to take, or has them when a failed move of the ledger has
        // ended: nothing of it is written.
        None if run.queued.is_some() && leaves_messages(outcome) => {
            return Err(StorageError::new(
                StorageErrorKind::StaleWriter,
                format!("turn `{}` was not begun: its messages are another turn's", run.turn_id),
            ));
        }
        // The run ended before it had the session: its row is written beside the session's thread.
        None if position.parent_turn_id.is_none() => {
            position.parent_turn_id =
                journal.head(&run.context.session_label).await.unwrap_or_default();
        }
        None => {}
    }
    if let Some(JournalState::Refused(error)) = session.as_ref().map(|it| &it.head.journal)
        && error.kind == StorageErrorKind::StaleWriter
    {
        // The ledger has the turn, and another process may go on with it.
        return Err(error.clone());
    }
    let mut end = outcome::turn_end(&run.context, machine, outcome, ended, position);
    if run.resumes || run.queued.is_some() {
        let items = run.queued.as_ref().map(|queued| queued.items.clone()).unwrap_or_default();
        let has_effect = active.queue.has_delta() || machine.calls().next().is_some();
        end.queue = Some(Box::new(QueueEnd { items, has_effect, ..QueueEnd::default() }));
    }
    end.has_approvals = !run.approvals.is_empty();
    match session.as_mut().map(|session| &mut session.head.journal) {
        Some(JournalState::Open(recorder)) => {
            recorder.settle().await;
            let step = recorder.unwritten(machine, &[]);
            end.epoch = Some(recorder.epoch());
            if let Some(queue) = &mut end.queue {
                queue.steered = step.items;
                queue.layers = step.layers;
            }
            end.messages = step.messages;
            end.tool_calls = step.calls.into_iter().map(|call| call.row).collect();
        }
        Some(JournalState::AtEnd | JournalState::Refused(_)) | None => {
            end.messages = machine.messages().to_vec();
            end.tool_calls = machine.calls().map(|call| call.row.clone()).collect();
        }
    }
    Ok(end)
}

/// Whether a turn that was not begun leaves the messages of its queue as they are.
fn leaves_messages(outcome: &Outcome) -> bool {
    let code = outcome.error.as_ref().and_then(|error| error.detail.code.as_deref());
    let kinds = [
        StorageErrorKind::StaleWriter,
        StorageErrorKind::AwaitingApproval,
        StorageErrorKind::Moved,
    ];
    kinds.iter().any(|kind| code == Some(kind.code()))
}

/// The terminal event, without its number.
fn last_event(
    active: &ActiveRun,
    machine: &Machine,
    outcome: &Outcome,
    ended: &Ended,
) -> StreamEvent {
    let stop_reason = Some(outcome.stop_reason);
    let (turn_id, cost) = (Some(ended.turn_id.clone()), ended.cost);
    let usage = Some(outcome::usage(machine, ended));
    // The ledger changes it where the turn does not get into its session's thread.
    let persisted = Some(true);
    if outcome::is_failure(outcome.stop_reason) {
        let error = outcome.error.as_ref();
        return StreamEvent::StreamError {
            error: error.map(|error| error.message.clone()).unwrap_or_default(),
            partial: active.queue.has_delta(),
            retry_after_ms: error.and_then(|error| error.detail.retry_after_ms),
            stop_reason,
            turn_id,
            usage,
            cost,
            persisted,
            kind: error.map(|error| error.kind),
            retryable: error.map(|error| error.retryable),
            seq: 0,
        };
    }
    StreamEvent::StreamEnd {
        run_id: active.run.context.run_id.clone(),
        r#final: true,
        parked: None,
        message_id: response_message_id(machine.messages()),
        stop_reason,
        turn_id,
        usage,
        cost,
        persisted,
        seq: 0,
    }
}

fn emit_end(active: &ActiveRun, last: StreamEvent, result: AgentResult) {
    active.queue.phase(AgentPhase::End, active.shared.clock.now_ms());
    active.queue.event(|seq| last.numbered(seq));
    emit_result(active, result);
}

/// Delivers the result: the last record of the run.
pub(super) fn emit_result(active: &ActiveRun, mut result: AgentResult) {
    for message in &mut result.messages {
        // A text crosses once: the other side copies it from the only block.
        if let [Block::Text { origin: None, .. }] = message.blocks.as_slice() {
            message.content.clear();
        }
    }
    let json = serde_json::to_string(&result).unwrap_or_default();
    active.queue.host(RecordKind::Result, &json);
}
