//! Interrupted turns: lists them, and closes one (docs/rules/turns-and-streams.md#session-pointer,
//! docs/rules/sessions-and-ledger.md#commit-points).
//!
//! It must never run a tool: a resumed turn is a normal run.

use std::sync::Arc;

use super::drive::{close_turn, damaged, not_interrupted};
use super::shared::EngineShared;
use base::error::{EngineError, ErrorCode};
use model::{AgentError, AgentErrorKind, ErrorDetail, FailureKind, InterruptedTurn, Journal};
use turn::machine::Event;

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
    close_turn(shared, journal, turn_id, Event::Broken(interrupted())).await?;
    Ok(())
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
