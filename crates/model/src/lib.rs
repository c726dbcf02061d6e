//! The shared types of the engine: its data, and the ports between its modules.
//!
//! Owns the shapes that several modules share. It must never do I/O, read a clock or know a provider's wire format.

mod data;
mod ports;
#[cfg(any(test, feature = "testing"))]
pub mod samples;

pub use data::approval::{
    Approval, ApprovalDecision, ApprovalFilter, ApprovalKind, ApprovalName, ApprovalStatus,
    ApprovalVerdict, ApprovedParams,
};
pub use data::block::{Block, BlockOrigin};
pub use data::broker::delivery::{DeliveryStatus, StoredDelivery};
pub use data::broker::dispatch::{
    AgentMessageKind, Dispatch, DispatchCancel, DispatchKind, DispatchStatus, MessageSender,
    SubagentLimits,
};
pub use data::broker::queue::{
    DropPolicy, FailedReason, ItemStatus, QueueItem, QueueLimits, QueueMode, Route, StoredItem,
};
pub use data::broker::schedule::StoredSchedule;
pub use data::call::api::{Api, IdRule, TranscriptRules};
pub use data::call::cache::{
    CacheBreak, CacheBreakCause, CacheChain, CacheChange, CachePart, CacheStep,
};
pub use data::call::options::{CacheTtl, PromptCache, RequestOptions, ResponseFormat, ToolChoice};
pub use data::call::plan::{
    PLANNED, PLANNER, Plan, PlanKind, PlanRecord, PlannedCall, PlannerKind, PlannerSettings,
};
pub use data::call::rate::{LimitState, RateLimit, RateLimitState, RateLimits};
pub use data::call::response::{BlockStart, Completion, Delta, DeltaSink, ReportedUsage, Stop};
pub use data::call::usage::{TokenCount, TokenUsage};
pub use data::catalogue::{
    Catalogue, CostTier, Matched, Modality, ModelCost, ModelDeclaration, ModelFilter, ModelInfo,
    Resolution, ThinkingCapability,
};
pub use data::context::{
    AgentRole, AssembledContext, OnApproval, ThinkingConfig, ThinkingEffort, ThinkingMode,
    TokenBudget,
};
pub use data::errors::error::{
    AgentError, AgentErrorKind, ErrorDetail, FailureKind, RetryAfterSource, StorageError,
    StorageErrorKind,
};
pub use data::errors::failure::Failure;
pub use data::event::{
    AgentPhase, ApprovalPhase, CompactionPhase, CompactionTrigger, EventGroup, StreamEvent,
    ToolStatus,
};
pub use data::event_text::{
    CallMembers, EventReference, EventText, MessageMembers, OutcomeMembers, members, reference_of,
    with_members,
};
pub use data::given_history::GivenHistory;
pub use data::image::is_base64;
pub use data::input::context::{continue_context, parse_context, session_label};
pub use data::input::error_path::error_path;
pub use data::input::field::{
    InputError, borrowed_from_json, from_json, one_line, optional, required, typed,
};
pub use data::input::json::repair_surrogates;
pub use data::input::json::repair_text;
pub use data::input::message::{Defaults, parse_agent_message, parse_message};
pub use data::input::problems::all_problems;
pub use data::input::quote::{bounded, clipped_path, quoted};
pub use data::interrupted::{InterruptedCall, InterruptedTurn, OpenCall, OpenTurn, Progress};
pub use data::ledger::context_layer::{
    LayerName, MessageLayers, RecalledHit, RecalledLayer, RecordedLayer,
};
pub use data::ledger::deletion::{
    DeleteSessionOptions, DeleteTurnsOptions, Deletion, LedgerDeletion, PruneOptions, TurnSelection,
};
pub use data::ledger::events::{
    Cursor, EventPage, Follows, Retention, SessionCommand, SessionPage,
};
pub use data::ledger::history::{HistoryBase, HistoryTurn, SessionHistory, TurnStatus, TurnType};
pub use data::ledger::maintenance::{
    BlobCounts, LedgerBackup, LedgerCheck, LedgerChecked, LedgerProblem, LedgerReport, LedgerStats,
    LedgerVacuum, TurnCounts,
};
pub use data::ledger::memory::fact::{FactFilter, FactSource, MemoryFact, NewFact};
pub use data::ledger::memory::report::{
    ForgetOptions, MemoryExtraction, MemoryForgotten, MemoryModel, MemoryReindex, MemoryStats,
    MemoryTotals, VectorSearch,
};
pub use data::ledger::memory::scope::{MemoryScope, MemoryScopeKind, SessionIdentity};
pub use data::ledger::memory::search::{
    MemoryCandidate, MemoryFound, MemoryHit, MemoryHits, MemoryKind, MemoryQuery, MemoryRow,
    MemorySearchOptions, MemoryWhy,
};
pub use data::ledger::metadata::{Metadata, MetadataChange, MetadataFilter, MetadataKey};
pub use data::ledger::page::{Limit, Page, PageOptions};
pub use data::ledger::query::{QueryLimits, QueryResult, QueryRow, Truncation};
pub use data::ledger::recall::{RECALL, Recall, Recalled, RecalledMessage};
pub use data::ledger::run::{EndedRun, RunFilter, RunInfo, RunProcess, RunStatus, StoredRequest};
pub use data::ledger::search::{SearchHit, SearchOptions};
pub use data::ledger::session::{
    AliasRow, PersonaRow, SessionChange, SessionFilter, SessionMove, SessionRow, SessionStatus,
};
pub use data::ledger::session_key::{SessionKey, SessionKind, names_no_session};
pub use data::ledger::transfer::{
    LedgerCopy, LedgerExport, LedgerFormat, LedgerImport, TransferCode, TransferProblem,
};
pub use data::ledger::turn::{
    EndedStatus, HistoryMessage, ToolCallFilter, ToolCallRow, TurnError, TurnFilter, TurnRow,
    TurnSummary,
};
pub use data::ledger::turn_diff::{DiffOptions, DiffSide, TurnDiff};
pub use data::ledger::usage_report::{UsageBy, UsageFilter, UsageRow};
pub use data::limits::budget::{
    BudgetOptions, BudgetPer, BudgetState, CallCost, Expense, Overdrawn, Reservation,
    ReservedAccount, SpendingLimits, SpentBy, TurnBudget,
};
pub use data::limits::policy::RunPolicy;
pub use data::message::{AgentMessage, Message, Provenance, Role, summary_of, summary_text};
pub use data::profile::{AuthType, ModelName, ProfileState, ProfileUsage, ProfileWindow};
pub use data::result::{
    AgentResult, AgentToolCall, Attempt, CallPurpose, CompactionResult, PersistError, RunWarning,
    StopReason, ToolCallStatus,
};
pub use data::tool::{
    ExecutionMode, OUTCOME_UNKNOWN, OUTCOME_UNKNOWN_TEXT, ReplayClass, ToolDefinition,
    ToolPermission,
};
pub use ports::approvals::{ApprovalStore, EndedTurn, Unparked};
pub use ports::broker_turn::parse_result;
pub use ports::commit::{
    CallStep, CommitReceipt, CompactionCommit, CompactionUsage, OnStaleHead, Opened, Parking,
    QueueEnd, ToolCallRecord, TurnEnd, TurnHeader, TurnLease, TurnOpening, TurnSettings, TurnStep,
    query_message_ids, response_message_id,
};
pub use ports::delivery_store::{
    ClaimedDeliveries, DeliveryFilter, DeliveryOutcome, DeliveryStore,
};
pub use ports::dispatch_store::{
    AgentSent, AgentTask, DispatchFilter, DispatchStore, NewAgentMessage,
};
pub use ports::future::PortFuture;
pub use ports::journal::{Journal, Reserved};
pub use ports::ledger::LedgerPorts;
pub use ports::ledger_admin::LedgerAdmin;
pub use ports::ledger_copy::{CopiedTable, CopyAnswer, CopyStep};
pub use ports::ledger_read::LedgerRead;
pub use ports::live::{LiveRun, RunEvent, RunEventKind, RunNames, RunRegistration};
pub use ports::memory_store::{
    EmbeddedChunk, EmbeddingCost, ExtractedFact, FactInput, IndexedTurn, MemoryCall, MemoryCounts,
    MemoryStore, MemoryWake, PENDING_BYTES, PendingText, PendingTurn, UnembeddedChunk,
    UnextractedTurn, Vectors,
};
pub use ports::profiles::{ProfileChange, ProfileStore, RateChange};
pub use ports::prompt_store::PromptStore;
pub use ports::queue_store::{
    Enqueued, NewItem, QueueLease, QueueStore, QueueTarget, QueueView, QueueWake, SessionQueue,
};
pub use ports::ratios::{RatioStore, TokenRatio};
pub use ports::run_events::EventRows;
pub use ports::schedule_store::{Firing, ScheduleStore};
