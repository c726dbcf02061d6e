//! Closes a turn that runs nowhere: one that was interrupted and is discarded, or one that is aborted while it is parked.
//!
//! It must never run a tool.

use std::sync::Arc;

use super::outcome::{Ended, TurnPosition, is_failure, turn_end};
use crate::engine::shared::EngineShared;
use base::clock::Clock;
use model::{
    Defaults, Journal, OpenTurn, Opened, StorageError, StorageErrorKind, StreamEvent, TokenUsage,
    TurnEnd, TurnLease, parse_context, quoted, response_message_id,
};
use turn::machine::{Event, Machine, Tick};

/// Takes the turn over and ends it with `event`. Its output stays (docs/rules/turns-and-streams.md#session-pointer).
///
/// # Errors
/// `unknown_turn` for one that is not interrupted or parked; any of storage.
pub(crate) async fn close_turn(
    shared: &EngineShared,
    journal: &Arc<dyn Journal>,
    turn_id: &str,
    event: Event,
) -> Result<(), StorageError> {
    let found = journal.interrupted(Some(turn_id)).await?.pop();
    let turn = found.ok_or_else(|| not_interrupted(turn_id))?;
    let _lane = shared.lanes.queue(&turn.session_label).enter().await;
    let Opened::Leased(turn) = journal.reopen(turn_id).await? else {
        return Err(not_interrupted(turn_id));
    };
    let lease = TurnLease { turn_id: turn.turn_id.clone(), epoch: turn.epoch };
    let release = ReleaseLease { journal, label: &turn.session_label, lease };
    let end = closed_turn(&shared.clock, &turn, Machine::restore(&turn, u32::MAX), event)?;
    journal.commit(Box::new(end)).await?;
    drop(release);
    Ok(())
}

/// Releases a lease when it is dropped.
struct ReleaseLease<'a> {
    journal: &'a Arc<dyn Journal>,
    label: &'a str,
    lease: TurnLease,
}

impl Drop for ReleaseLease<'_> {
    fn drop(&mut self) {
        self.journal.release(self.label, &self.lease);
    }
}

/// The end that closes a turn with `event`.
fn closed_turn(
    clock: &Clock,
    turn: &OpenTurn,
    mut machine: Machine,
    event: Event,
) -> Result<TurnEnd, StorageError> {
    let mut new_id = || clock.new_id();
    let mut defaults = Defaults { new_id: &mut new_id, now_ms: clock.now_ms() };
    // An altered context is not used; closing the turn needs only its names.
    let json = if turn.altered { turn.bare_context_json() } else { turn.context_json() };
    let context = json
        .ok()
        .and_then(|json| parse_context(&json, &mut defaults).ok())
        .ok_or_else(|| damaged(turn))?;
    let mut tick = Tick {
        now_ms: clock.now_ms(),
        new_id: &mut || clock.new_id(),
        remaining: std::time::Duration::ZERO,
    };
    machine.feed(event, &mut tick);
    let outcome = machine.outcome().cloned().ok_or_else(|| damaged(turn))?;
    let ended = Ended {
        turn_id: turn.turn_id.clone(),
        duration_ms: 0,
        attempts: turn.progress.attempts.clone(),
        cost: turn.progress.cost,
        unseen: TokenUsage::default(),
        unseen_estimated: false,
        undelivered_steering: Vec::new(),
        warnings: Vec::new(),
        cache_breaks: Vec::new(),
        compaction: None,
        token_budget: None,
        permissions_used: None,
    };
    let position = TurnPosition {
        parent_turn_id: turn.parent_turn_id.clone(),
        expected_head: turn.expected_head.clone(),
        began: true,
        started_at: turn.started_at,
        completed_at: clock.now_ms(),
    };
    let end = turn_end(&context, &machine, &outcome, &ended, position);
    // Whether a delta was emitted is recorded with the events; the outcome is that of the row.
    let last_event = Some(match &outcome.error {
        Some(error) if is_failure(outcome.stop_reason) => {
            StreamEvent::error(error.message.clone(), false)
        }
        Some(_) | None => StreamEvent::StreamEnd {
            run_id: turn.run_id.clone(),
            r#final: true,
            parked: None,
            message_id: response_message_id(machine.messages()),
            stop_reason: Some(outcome.stop_reason),
            turn_id: Some(turn.turn_id.clone()),
            usage: Some(super::outcome::usage(&machine, &ended)),
            cost: ended.cost,
            persisted: Some(true),
            seq: 0,
        },
    });
    let (messages, tool_calls) = machine.into_parts();
    let has_approvals = !turn.approvals.is_empty();
    Ok(TurnEnd { messages, tool_calls, epoch: Some(turn.epoch), last_event, has_approvals, ..end })
}

/// The error for a turn that runs, has ended, or never was.
pub(crate) fn not_interrupted(turn_id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownTurn,
        format!(
            "turn {} is not an interrupted one; pass an id that `recover()` lists",
            quoted(turn_id)
        ),
    )
}

/// The error for a turn whose stored context cannot be used.
pub(crate) fn damaged(turn: &OpenTurn) -> StorageError {
    StorageError::new(
        StorageErrorKind::Corrupt,
        format!(
            "turn `{}` is not as it was written; discard it, or restore a backup",
            turn.turn_id
        ),
    )
}
