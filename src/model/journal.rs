//! The port through which the engine commits a turn and reads a session; the ledger implements it.
//!
//! It stands here because two rooms need it and neither may know the other (DESIGN §2). It must never name SQLite.

use std::future::Future;
use std::pin::Pin;

use super::{
    AgentError, AgentRole, AgentToolCall, Attempt, CompactionResult, Message, StopReason,
    StorageError, TokenUsage,
};

/// The status of a turn's row (RULES §1).
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
    /// How it ended: aborted and failed turns are projected differently (RULES §1).
    pub status: TurnStatus,
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
    /// The turns, oldest first.
    pub turns: Vec<HistoryTurn>,
}

/// A tool call with the ids the ledger keeps.
pub type ToolCallRecord = AgentToolCall;

/// All that one transaction writes when a run ends (W4, DESIGN §4).
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields carry the seeds' column names")]
pub struct TurnCommit {
    pub turn_id: String,
    pub run_id: String,
    pub session_label: String,
    /// The parent turn; `None` for a root turn.
    pub parent_turn_id: Option<String>,
    /// The session's head when the run began, compared and set in the transaction; a session that did not exist is `None`.
    pub expected_head: Option<String>,
    /// Whether the session's pointer moves (RULES §1, "Pointer movement").
    pub move_pointer: bool,
    pub status: TurnStatus,
    pub stop_reason: StopReason,
    pub started_at: i64,
    pub completed_at: i64,
    pub provider: String,
    pub model: String,
    pub role: AgentRole,
    pub toolset_name: String,
    pub tools_available: Vec<String>,
    /// JSON text.
    pub permissions_granted: String,
    pub usage: TokenUsage,
    pub usage_estimated: bool,
    pub context_tokens: Option<u64>,
    pub cost: Option<f64>,
    pub query_message_ids: Vec<String>,
    pub response_message_id: Option<String>,
    pub source_event_id: Option<String>,
    pub workspace_path: String,
    pub error: Option<AgentError>,
    pub attempts: Vec<Attempt>,
    pub messages: Vec<Message>,
    pub tool_calls: Vec<ToolCallRecord>,
    pub compaction: Option<CompactionResult>,
}

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitReceipt {
    /// The turn's ULID.
    pub turn_id: String,
    /// The session's head after the commit.
    pub head: Option<String>,
}

/// The answer of a [`Journal`], awaited off the JavaScript thread.
pub type JournalFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StorageError>> + Send + 'a>>;

/// Where turns are committed and read. Dropping a commit's future does not undo the commit.
pub trait Journal: Send + Sync {
    /// The session's history. With `known` (a head the caller has already read), only what came after it, where that
    /// head is still an ancestor. With `at`, the history of that turn instead of the session's head.
    fn history<'a>(
        &'a self,
        session_label: &'a str,
        at: Option<&'a str>,
        known: Option<&'a str>,
    ) -> JournalFuture<'a, SessionHistory>;

    /// The session's newest turn; `None` for a session without one, or for none.
    fn head<'a>(&'a self, session_label: &'a str) -> JournalFuture<'a, Option<String>>;

    /// What tells this ledger from every other: handles of one file give the same.
    fn id(&self) -> String;

    /// Commits a finished turn: all or nothing.
    fn commit(&self, turn: Box<TurnCommit>) -> JournalFuture<'_, CommitReceipt>;
}
