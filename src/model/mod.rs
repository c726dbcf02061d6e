//! The vocabulary of the engine: ids, messages, tools, context, events, results, usage, errors.
//!
//! Owns the shapes that several rooms share. It must never do I/O, read a clock or know a provider's wire format.

mod block;
mod context;
mod error;
mod event;
mod input;
mod journal;
mod message;
mod result;
mod tool;
mod usage;

pub use block::Block;
pub use context::{
    AgentRole, AssembledContext, ThinkingConfig, ThinkingEffort, ThinkingMode, TokenBudget,
};
pub use error::{
    AgentError, AgentErrorKind, ErrorDetail, FailureKind, StorageError, StorageErrorKind,
};
pub use event::{AgentPhase, StreamEvent, ToolStatus};
pub use input::{
    Defaults, InputError, parse_agent_message, parse_context, parse_message, session_label,
};
pub(crate) use input::{optional, required};
pub use journal::{
    CommitReceipt, HistoryBase, HistoryTurn, Journal, JournalFuture, SessionHistory,
    ToolCallRecord, TurnCommit, TurnStatus, TurnType,
};
pub use message::{AgentMessage, Message, Provenance, Role};
pub use result::{
    AgentResult, AgentToolCall, Attempt, CompactionResult, PersistError, StopReason, ToolCallStatus,
};
pub use tool::{ExecutionMode, ReplayClass, ToolDefinition};
pub use usage::TokenUsage;
