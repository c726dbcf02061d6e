//! Interrupted turns: lists them, and closes one (docs/rules/turns-and-streams.md#session-pointer,
//! docs/rules/sessions-and-ledger.md#commit-points).
//!
//! It must never run a tool: a resumed turn is a normal run.

use std::sync::Arc;

use super::drive::{Ended, TurnPosition, turn_end};
use super::shared::EngineShared;
use base::clock::Clock;
use base::error::{EngineError, ErrorCode};
use model::{
    AgentError, AgentErrorKind, Defaults, ErrorDetail, FailureKind, InterruptedTurn, Journal,
    OpenTurn, Opened, StorageError, StorageErrorKind, StreamEvent, TokenUsage, TurnEnd, TurnLease,
    parse_context, quoted,
};
use turn::machine::{Event, Machine, Tick};

/// The engine's journal.
pub(crate) fn journal_of(shared: &EngineShared) -> Result<&Arc<dyn Journal>, EngineError> {
    shared.journal.as_ref().ok_or_else(|| {
        EngineError::new(ErrorCode::NoLedger, "the engine has no ledger; pass `ledger: { path }`")
    })
}

/// The interrupted turns, oldest first.
pub(crate) async fn list(shared: &EngineShared) -> Result<Vec<InterruptedTurn>, EngineError> {
    let turns = journal_of(shared)?.interrupted(None).await?;
    Ok(turns.into_iter().map(InterruptedTurn::from).collect())
}

/// The stored context of an interrupted turn, as JSON.
pub(crate) async fn context(shared: &EngineShared, turn_id: &str) -> Result<String, EngineError> {
    let found = journal_of(shared)?.interrupted(Some(turn_id)).await?.pop();
    let turn = found.ok_or_else(|| not_interrupted(turn_id))?;
    turn.context_json().map_err(|_| damaged(&turn).into())
}

/// Closes an interrupted turn as failed. Its output stays (docs/rules/turns-and-streams.md#session-pointer).
pub(crate) async fn discard(shared: &EngineShared, turn_id: &str) -> Result<(), EngineError> {
    let journal = journal_of(shared)?;
    let found = journal.interrupted(Some(turn_id)).await?.pop();
    let turn = found.ok_or_else(|| not_interrupted(turn_id))?;
    let _lane = shared.lanes.queue(&turn.session_label).enter().await;
    let Opened::Leased(turn) = journal.reopen(turn_id).await? else {
        return Err(not_interrupted(turn_id).into());
    };
    let lease = TurnLease { turn_id: turn.turn_id.clone(), epoch: turn.epoch };
    let release = ReleaseLease { journal, label: &turn.session_label, lease };
    let end = closed_turn(&shared.clock, &turn, Machine::restore(&turn, u32::MAX))?;
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

/// The end that closes an interrupted turn.
fn closed_turn(
    clock: &Clock,
    turn: &OpenTurn,
    mut machine: Machine,
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
    machine.feed(Event::Broken(interrupted()), &mut tick);
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
    };
    let position = TurnPosition {
        parent_turn_id: turn.parent_turn_id.clone(),
        expected_head: turn.expected_head.clone(),
        began: true,
        started_at: turn.started_at,
        completed_at: clock.now_ms(),
    };
    let end = turn_end(&context, &machine, &outcome, &ended, position);
    let (messages, tool_calls) = machine.into_parts();
    let error = interrupted().message;
    // Whether a delta was emitted is recorded with the events; the outcome is that of the row.
    let last_event = Some(StreamEvent::error(error, false));
    Ok(TurnEnd { messages, tool_calls, epoch: Some(turn.epoch), last_event, ..end })
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

fn interrupted() -> AgentError {
    AgentError {
        kind: AgentErrorKind::Unknown,
        message: "the turn was interrupted and then discarded; send its message again".to_owned(),
        retryable: true,
        detail: ErrorDetail {
            kind: FailureKind::Unknown,
            status: None,
            code: Some("interrupted".to_owned()),
            retry_after_ms: None,
            retry_after_source: None,
        },
    }
}

fn damaged(turn: &OpenTurn) -> StorageError {
    StorageError::new(
        StorageErrorKind::Corrupt,
        format!(
            "turn `{}` is not as it was written; discard it, or restore a backup",
            turn.turn_id
        ),
    )
}
