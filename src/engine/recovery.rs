//! Turns that a crash has interrupted: listing them, going on with one, closing one (docs/rules/turns-and-streams.md#session-pointer, docs/rules/sessions-and-ledger.md#commit-points).
//!
//! It must never run a tool: a resumed turn goes the way of every run.

use std::sync::Arc;

use super::outcome::{self, Ended, Place};
use super::{Engine, RunHandles};
use base::error::{EngineError, ErrorCode};
use model::{
    AgentError, AgentErrorKind, AssembledContext, Defaults, ErrorDetail, FailureKind,
    InterruptedTurn, Journal, OpenTurn, StorageError, StorageErrorKind, StreamEvent, TurnCommit,
    parse_context, quoted,
};
use turn::machine::{Event, Machine, Tick};

impl Engine {
    fn journal(&self) -> Result<&Arc<dyn Journal>, EngineError> {
        self.core.journal.as_ref().ok_or_else(|| {
            EngineError::new(
                ErrorCode::NoLedger,
                "the engine has no ledger; pass `ledger: { path }`",
            )
        })
    }

    /// The turns that were begun, have not ended, and run nowhere; oldest first.
    ///
    /// # Errors
    /// `no_ledger`; any of storage.
    pub async fn recover(&self) -> Result<Vec<InterruptedTurn>, EngineError> {
        let turns = self.journal()?.interrupted(None).await?;
        Ok(turns.into_iter().map(InterruptedTurn::from).collect())
    }

    /// The context an interrupted turn was begun with, without history, headers and functions: JSON.
    ///
    /// # Errors
    /// `unknown_turn` for one that is not interrupted; any of storage.
    pub async fn interrupted_context(&self, turn_id: &str) -> Result<String, EngineError> {
        let found = self.journal()?.interrupted(Some(turn_id)).await?.pop();
        let turn = found.ok_or_else(|| {
            StorageError::new(
                StorageErrorKind::UnknownTurn,
                format!(
                    "turn {} is not an interrupted one; pass an id that `recover()` lists",
                    quoted(turn_id)
                ),
            )
        })?;
        turn.context_json().map_err(|_| damaged(&turn).into())
    }

    /// Goes on with an interrupted turn from its last commit point, as [`Engine::start`] does with a new one. `context`
    /// is its own, with the tools the host has now.
    ///
    /// # Errors
    /// As [`Engine::start`], and `no_ledger`. That the turn cannot be resumed any more is the run's result.
    pub fn resume(
        &self,
        turn_id: String,
        context: AssembledContext,
        handles: RunHandles,
    ) -> Result<(), EngineError> {
        self.journal()?;
        self.spawn(context, Some(turn_id), handles)
    }

    /// Closes an interrupted turn as failed with the code `interrupted`. What it produced stays, and is part of the
    /// session where the session has not gone on without it.
    ///
    /// # Errors
    /// `unknown_turn` for one that is not interrupted; any of storage.
    pub async fn discard(&self, turn_id: &str) -> Result<(), EngineError> {
        let journal = self.journal()?;
        let close = |turn: &OpenTurn, machine| self.closed_turn(turn, machine);
        Ok(self.core.discard(journal, turn_id, close).await?)
    }

    fn closed_turn(
        &self,
        turn: &OpenTurn,
        mut machine: Machine,
    ) -> Result<TurnCommit, StorageError> {
        let clock = &self.core.clock;
        let mut new_id = || clock.new_id();
        let mut defaults = Defaults { new_id: &mut new_id, now_ms: clock.now_ms() };
        // What was altered is not believed; closing the turn needs no more of it than its names.
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
            unseen: Default::default(),
            undelivered_steering: Vec::new(),
            warnings: Vec::new(),
            cache_breaks: Vec::new(),
            compaction: None,
            token_budget: None,
        };
        let place = Place {
            parent_turn_id: turn.parent_turn_id.clone(),
            expected_head: turn.expected_head.clone(),
            began: true,
            started_at: turn.started_at,
            completed_at: clock.now_ms(),
        };
        let commit = outcome::commit(&context, &machine, &outcome, &ended, place);
        let (messages, tool_calls) = machine.into_parts();
        let error = interrupted().message;
        // Whether something was said before is known where the events are.
        let last_event = Some(StreamEvent::StreamError { error, partial: false, seq: 0 });
        Ok(TurnCommit { messages, tool_calls, last_event, ..commit })
    }
}

fn interrupted() -> AgentError {
    AgentError {
        kind: AgentErrorKind::Unknown,
        message: "the turn was interrupted and then discarded; ask again".to_owned(),
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
