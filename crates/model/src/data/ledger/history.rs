//! A session's history as the next call of a model needs it, and what kinds of turns there are.
//!
//! Plain data: which turns are in it is decided elsewhere.

use crate::{Message, StopReason};

/// The status of a turn's row (docs/rules/turns-and-streams.md#turn-status).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnStatus {
    /// Running, or interrupted.
    Streaming,
    /// Ended by itself, or at a cap.
    Completed,
    /// Aborted.
    Aborted,
    /// Failed or timed out.
    Failed,
}

impl TurnStatus {
    /// The column's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
        }
    }

    /// The status a stop reason ends in.
    #[must_use]
    pub fn of(stop: StopReason) -> Self {
        match stop {
            StopReason::EndTurn | StopReason::MaxTokens | StopReason::ToolUse => Self::Completed,
            StopReason::Aborted => Self::Aborted,
            StopReason::Timeout | StopReason::Error => Self::Failed,
        }
    }
}

/// What kind of turn a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnType {
    /// A run.
    Normal,
    /// A summary of earlier turns.
    Compaction,
}

/// A turn as a later context needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryTurn {
    /// The turn's ULID.
    pub id: String,
    /// How it ended: aborted and failed turns are projected differently (docs/rules/turns-and-streams.md#interrupted-turns-in-context).
    pub status: TurnStatus,
    /// Whether a compaction came after it: what stood before it when it was written is no longer there (docs/rules/projection.md#thinking).
    pub edited: bool,
    /// So many of its messages were written before the compaction that it follows: one that its own run made.
    pub edited_messages: usize,
    /// Its messages in order.
    pub messages: Vec<Message>,
}

/// What [`SessionHistory::turns`] follows on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryBase {
    /// The turns are all that the context needs.
    Root,
    /// The turns are those after the head the caller already knows.
    Known,
}

/// A session's history, or what is new in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHistory {
    /// Whether the session exists.
    pub exists: bool,
    /// The newest turn; `None` for a session without one.
    pub head: Option<String>,
    /// What `turns` follows on.
    pub base: HistoryBase,
    /// Whether the first of `turns` is a compaction's summary.
    pub summarised: bool,
    /// The turns, oldest first.
    pub turns: Vec<HistoryTurn>,
}
