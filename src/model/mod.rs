//! The vocabulary of the engine: ids, messages, tools, context, events, results, usage, errors.
//!
//! Owns the shapes that several rooms share. It must never do I/O, read a clock or know a provider's wire format.

mod api;
mod block;
mod catalogue;
mod context;
mod error;
mod event;
mod failure;
mod input;
mod journal;
mod json;
mod message;
mod response;
mod result;
mod tool;
mod usage;

pub use api::Api;
pub use block::Block;
pub use catalogue::{
    Catalogue, CostTier, Matched, Modality, ModelCost, ModelDeclaration, ModelInfo, Resolution,
    ThinkingCapability,
};
pub use context::{
    AgentRole, AssembledContext, ThinkingConfig, ThinkingEffort, ThinkingMode, TokenBudget,
};
pub use error::{
    AgentError, AgentErrorKind, ErrorDetail, FailureKind, StorageError, StorageErrorKind,
};
pub use event::{AgentPhase, StreamEvent, ToolStatus};
pub use failure::Failure;
#[cfg(feature = "node")]
pub(crate) use input::input_error;
pub(crate) use input::typed;
pub use input::{
    Defaults, InputError, parse_agent_message, parse_context, parse_message, session_label,
};
pub(crate) use input::{optional, required};
pub use journal::{
    CommitReceipt, HistoryBase, HistoryTurn, Journal, JournalFuture, SessionHistory,
    ToolCallRecord, TurnCommit, TurnStatus, TurnType,
};
pub use json::repair_surrogates;
pub(crate) use json::repair_text;
pub use message::{AgentMessage, Message, Provenance, Role};
pub use response::{BlockStart, Completion, Delta, DeltaSink, ReportedUsage, Stop};
pub use result::{
    AgentResult, AgentToolCall, Attempt, CompactionResult, PersistError, StopReason, ToolCallStatus,
};
pub use tool::{ExecutionMode, ReplayClass, ToolDefinition};
pub use usage::TokenUsage;
