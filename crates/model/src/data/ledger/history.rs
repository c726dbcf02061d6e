//! A session's history for the next call of a model, and the kinds of turns.
//!
//! Plain data: other files decide which turns are in it.

use crate::{Message, StopReason};

/// The status of a turn's row (docs/rules/turns-and-streams.md#turn-status).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnStatus {
    /// Running, or interrupted.
    Streaming,
    /// Completed, or ended at a cap.
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

    /// The status of a turn with this stop reason.
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

/// The part of a turn that a later context needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryTurn {
    /// The turn's ULID.
    pub id: String,
    /// Its status: aborted and failed turns are projected differently
    /// (docs/rules/turns-and-streams.md#interrupted-turns-in-context).
    pub status: TurnStatus,
    /// Whether a compaction came after it: the messages before it are not those it was written after
    /// (docs/rules/projection.md#thinking).
    pub edited: bool,
    /// How many of its messages were written before the compaction that it follows: one that its own run made.
    pub edited_messages: usize,
    /// Its messages in order.
    pub messages: Vec<Message>,
}

/// Where [`SessionHistory::turns`] begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryBase {
    /// At the start: the turns are all that the context needs.
    Root,
    /// After the head that the caller already has.
    Known,
}

/// A session's history, or its new turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHistory {
    /// Whether the session exists.
    pub exists: bool,
    /// The newest turn; `None` for a session without one.
    pub head: Option<String>,
    /// Where `turns` begins.
    pub base: HistoryBase,
    /// Whether the first of `turns` is a compaction's summary.
    pub summarised: bool,
    /// The turns, oldest first.
    pub turns: Vec<HistoryTurn>,
}
