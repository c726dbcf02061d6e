//! What can go wrong in a run, as values: the broker interface's seven kinds, the finer kinds of docs/rules/failover.md#failure-kinds, and storage.
//!
//! Messages here must never hold a key, a header or a prompt.

use serde::{Deserialize, Serialize};

/// The broker interface's closed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum AgentErrorKind {
    /// The context is too large, even after compaction.
    ContextOverflow,
    /// Every auth profile was refused.
    AuthFailure,
    /// Rate limited, with no fallback.
    RateLimit,
    /// The provider answered with an error, or could not be reached.
    ModelError,
    /// The run took longer than `timeoutMs`.
    Timeout,
    /// Compaction failed.
    CompactionFailure,
    /// Anything else; see `detail`.
    Unknown,
}

impl AgentErrorKind {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContextOverflow => "context_overflow",
            Self::AuthFailure => "auth_failure",
            Self::RateLimit => "rate_limit",
            Self::ModelError => "model_error",
            Self::Timeout => "timeout",
            Self::CompactionFailure => "compaction_failure",
            Self::Unknown => "unknown",
        }
    }
}

/// The finer kinds, and the engine's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The prompt does not fit the window.
    ContextOverflow,
    /// Too many requests or tokens.
    RateLimit,
    /// The provider is overloaded.
    Overloaded,
    /// The provider failed (5xx).
    ServerError,
    /// A connect, header or idle limit was reached.
    Timeout,
    /// The connection failed, or the response ended before its terminal event.
    Network,
    /// Credit or quota is used up.
    Billing,
    /// The key was refused.
    Auth,
    /// The key was revoked or disabled.
    AuthPermanent,
    /// The provider does not know the model.
    ModelNotFound,
    /// The provider refused the request's form.
    Format,
    /// The model or a filter refused.
    Refusal,
    /// The call could have exceeded a budget, and was not made.
    BudgetExceeded,
    /// The run has used the tokens that its policy allows.
    PolicyMaxTokens,
    /// The answer does not fit the schema of the output, also after the repairs.
    OutputInvalid,
    /// The run was aborted.
    Aborted,
    /// The ledger failed.
    Storage,
    /// Not recognised.
    Unknown,
}

impl AgentErrorKind {
    /// The kind of a failure of which only this is known.
    #[must_use]
    pub fn failure_kind(self) -> FailureKind {
        match self {
            Self::ContextOverflow => FailureKind::ContextOverflow,
            Self::AuthFailure => FailureKind::Auth,
            Self::RateLimit => FailureKind::RateLimit,
            Self::Timeout => FailureKind::Timeout,
            Self::ModelError | Self::CompactionFailure | Self::Unknown => FailureKind::Unknown,
        }
    }
}

impl FailureKind {
    /// The broker interface's kind this one is reported as.
    #[must_use]
    pub fn agent_kind(self) -> AgentErrorKind {
        match self {
            Self::ContextOverflow => AgentErrorKind::ContextOverflow,
            Self::RateLimit => AgentErrorKind::RateLimit,
            Self::Auth | Self::AuthPermanent | Self::Billing => AgentErrorKind::AuthFailure,
            Self::Overloaded
            | Self::ServerError
            | Self::Network
            | Self::ModelNotFound
            | Self::Format
            | Self::Refusal
            | Self::OutputInvalid => AgentErrorKind::ModelError,
            Self::Timeout => AgentErrorKind::Timeout,
            Self::BudgetExceeded
            | Self::PolicyMaxTokens
            | Self::Aborted
            | Self::Storage
            | Self::Unknown => AgentErrorKind::Unknown,
        }
    }

    /// Whether the broker may try the run again (docs/rules/failover.md#public-error-kinds).
    #[must_use]
    pub fn is_retryable(self) -> bool {
        match self {
            Self::RateLimit
            | Self::Timeout
            | Self::Overloaded
            | Self::ServerError
            | Self::Network => true,
            Self::ContextOverflow
            | Self::Billing
            | Self::Auth
            | Self::AuthPermanent
            | Self::ModelNotFound
            | Self::Format
            | Self::Refusal
            | Self::BudgetExceeded
            | Self::PolicyMaxTokens
            | Self::OutputInvalid
            | Self::Aborted
            | Self::Storage
            | Self::Unknown => false,
        }
    }

    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContextOverflow => "context_overflow",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::Timeout => "timeout",
            Self::Network => "network",
            Self::Billing => "billing",
            Self::Auth => "auth",
            Self::AuthPermanent => "auth_permanent",
            Self::ModelNotFound => "model_not_found",
            Self::Format => "format",
            Self::Refusal => "refusal",
            Self::BudgetExceeded => "budget_exceeded",
            Self::PolicyMaxTokens => "policy_max_tokens",
            Self::OutputInvalid => "output_invalid",
            Self::Aborted => "aborted",
            Self::Storage => "storage",
            Self::Unknown => "unknown",
        }
    }
}

/// The details beyond the kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct ErrorDetail {
    /// The finer kind.
    pub kind: FailureKind,
    /// The HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// A stable code: the provider's, or the engine's (`stream_truncated`, `idle_timeout`, `stale_head`, …).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// After how many milliseconds another run may succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Who set that time; present where `retryAfterMs` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_source: Option<RetryAfterSource>,
}

/// The source of `retryAfterMs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum RetryAfterSource {
    /// The provider sent it.
    Provider,
    /// The provider sent no time: it is the end of the engine's own cooldown of the profile.
    Cooldown,
}

/// The broker interface's `AgentError`, with `detail`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct AgentError {
    /// The broker interface's kind.
    pub kind: AgentErrorKind,
    /// What failed and what to do about it; redacted.
    pub message: String,
    /// Whether the broker may try the run again.
    pub retryable: bool,
    /// The finer kind and its facts.
    pub detail: ErrorDetail,
}

/// Why the ledger refused or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum StorageErrorKind {
    /// The file is not a ledger.
    Foreign,
    /// The file was written by a newer version.
    Newer,
    /// The file is damaged, truncated or empty.
    Corrupt,
    /// Another SQLite library or a second engine copy in this process holds the file.
    InUse,
    /// The file was deleted or replaced while it was open.
    Replaced,
    /// The ledger was moved to another place, which the message names.
    Moved,
    /// The read pinned the log for so long that it was ended.
    ReadExpired,
    /// The file is on a network or shared file system.
    NotLocal,
    /// The process has no free file descriptor.
    NoDescriptors,
    /// The disk is full.
    Full,
    /// The file or its folder cannot be written.
    ReadOnly,
    /// Another process held the lock longer than the busy timeout.
    Locked,
    /// The session's head moved since the run began (docs/rules/sessions-and-ledger.md#pointer-write).
    StaleHead,
    /// Another process has taken over the run's lease (docs/rules/sessions-and-ledger.md#lease).
    StaleWriter,
    /// No such turn.
    UnknownTurn,
    /// No such session.
    UnknownSession,
    /// No run with that id, or none with stored events.
    UnknownRun,
    /// The run's events were removed.
    EventsExpired,
    /// The ledger has a run with that id.
    DuplicateRun,
    /// The run has not ended, and no process runs it.
    RunInterrupted,
    /// No run is under way in the session.
    NotRunning,
    /// The turn has no such tool call.
    UnknownToolCall,
    /// No such approval, or no call with that id waits for its result.
    UnknownApproval,
    /// No such fact, or it does not hold any more.
    UnknownFact,
    /// Somebody has decided about the approval already.
    AlreadyDecided,
    /// A turn of the session waits for an approval (docs/rules/approvals.md#parked-sessions).
    AwaitingApproval,
    /// The statement is not a read, or not valid SQL.
    InvalidQuery,
    /// The row breaks a rule of the schema.
    Constraint,
    /// The file to write already exists.
    Exists,
    /// The file to read does not have the named format.
    InvalidImport,
    /// The ledger is closed.
    Closed,
    /// The backend of the ledger does not have this.
    Unsupported,
    /// Any other error of the disk or the library.
    Io,
}

impl StorageErrorKind {
    /// The stable code: `storage_full`, `stale_head`, …
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Foreign => "ledger_foreign",
            Self::Newer => "ledger_newer",
            Self::Corrupt => "ledger_corrupt",
            Self::InUse => "ledger_in_use",
            Self::Replaced => "ledger_replaced",
            Self::Moved => "ledger_moved",
            Self::ReadExpired => "read_expired",
            Self::NotLocal => "storage_not_local",
            Self::NoDescriptors => "no_file_descriptors",
            Self::Full => "storage_full",
            Self::ReadOnly => "storage_read_only",
            Self::Locked => "storage_locked",
            Self::StaleHead => "stale_head",
            Self::StaleWriter => "stale_writer",
            Self::UnknownTurn => "unknown_turn",
            Self::UnknownSession => "unknown_session",
            Self::UnknownRun => "unknown_run",
            Self::EventsExpired => "events_expired",
            Self::DuplicateRun => "duplicate_run",
            Self::RunInterrupted => "run_interrupted",
            Self::NotRunning => "not_running",
            Self::UnknownToolCall => "unknown_tool_call",
            Self::UnknownApproval => "unknown_approval",
            Self::UnknownFact => "unknown_fact",
            Self::AlreadyDecided => "already_decided",
            Self::AwaitingApproval => "awaiting_approval",
            Self::InvalidQuery => "invalid_query",
            Self::Constraint => "storage_constraint",
            Self::Exists => "storage_exists",
            Self::InvalidImport => "invalid_import",
            Self::Closed => "ledger_closed",
            Self::Unsupported => "unsupported",
            Self::Io => "storage_io",
        }
    }
}

/// A failure of the ledger: one kind, one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StorageError {
    /// The class of the failure.
    pub kind: StorageErrorKind,
    /// What failed, with the value in backticks, and what to do.
    pub message: String,
    /// The wrong argument, if there is one.
    pub field: Option<String>,
}

impl StorageError {
    /// A failure with its message.
    #[must_use]
    pub fn new(kind: StorageErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), field: None }
    }

    /// The same, for an argument.
    #[must_use]
    pub fn at(self, field: &str) -> Self {
        Self { field: Some(field.to_owned()), ..self }
    }
}
