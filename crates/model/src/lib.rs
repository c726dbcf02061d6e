//! The vocabulary of the engine: ids, messages, tools, context, events, results, usage, errors.
//!
//! Owns the shapes that several rooms share. It must never do I/O, read a clock or know a provider's wire format.

mod api;
mod block;
mod budget;
mod cache;
mod calibration;
mod catalogue;
mod context;
mod error;
mod event;
mod failure;
mod image;
mod input;
mod interrupted;
mod journal;
mod json;
mod live;
mod message;
mod options;
mod profile;
mod quote;
mod rate;
mod recall;
mod response;
mod result;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
mod session_key;
mod tool;
mod usage;

pub use api::{Api, IdRule, TranscriptRules};
pub use block::Block;
pub use budget::{BudgetOptions, BudgetPer, BudgetState, Expense, SpentBy};
pub use cache::{CacheBreak, CacheBreakCause, CacheChain, CacheChange, CachePart, CacheStep};
pub use calibration::{KeptRatio, RatioStore};
pub use catalogue::{
    Catalogue, CostTier, Matched, Modality, ModelCost, ModelDeclaration, ModelFilter, ModelInfo,
    Resolution, ThinkingCapability,
};
pub use context::{
    AgentRole, AssembledContext, ThinkingConfig, ThinkingEffort, ThinkingMode, TokenBudget,
};
pub use error::{
    AgentError, AgentErrorKind, ErrorDetail, FailureKind, RetryAfterSource, StorageError,
    StorageErrorKind,
};
pub use event::{AgentPhase, StreamEvent, ToolStatus};
pub use failure::Failure;
pub use image::is_base64;
pub use input::input_error;
pub use input::{
    Defaults, InputError, parse_agent_message, parse_context, parse_message, session_label,
};
pub use input::{one_line, optional, required, typed};
pub use interrupted::{InterruptedCall, InterruptedTurn, OpenCall, OpenTurn, Progress};
pub use journal::{
    CallStep, CommitReceipt, CompactionStep, CompactionUsage, HistoryBase, HistoryTurn, Journal,
    JournalFuture, OnStaleHead, Opened, SessionHistory, ToolCallRecord, TurnCommit, TurnFacts,
    TurnOpening, TurnStatus, TurnStep, TurnType,
};
pub use json::repair_surrogates;
pub use json::repair_text;
pub use live::{LiveRun, RunEvent, RunEventKind, RunNames, RunRegistration};
pub use message::{AgentMessage, Message, Provenance, Role, summary_of, summary_text};
pub use options::{CacheTtl, PromptCache, RequestOptions, ResponseFormat, ToolChoice};
pub use profile::{
    AuthType, ModelName, ProfileChange, ProfileState, ProfileStore, ProfileUsage, ProfileWindow,
};
pub use quote::{bounded, clipped_path, quoted};
pub use rate::{LimitState, RateLimit, RateLimitState, RateLimits};
pub use recall::{RECALL, Recall, Recalled, RecalledMessage};
pub use response::{BlockStart, Completion, Delta, DeltaSink, ReportedUsage, Stop};
pub use result::{
    AgentResult, AgentToolCall, Attempt, CallPurpose, CompactionResult, PersistError, RunWarning,
    StopReason, ToolCallStatus,
};
pub use session_key::{SessionKey, SessionKind};
pub use tool::{ExecutionMode, OUTCOME_UNKNOWN, OUTCOME_UNKNOWN_TEXT, ReplayClass, ToolDefinition};
pub use usage::{TokenCount, TokenUsage};
