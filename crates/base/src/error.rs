//! The error at the boundary to the host: a wrong argument, or a ledger that cannot be opened.
//!
//! One type with stable codes. It must never hold a key, a prompt or a value of the host beyond a short name: quoted texts
//! are cut here, whatever the origin of the message.

use model::{
    AgentError, Failure, InputError, StorageError, StorageErrorKind, bounded, clipped_path,
};

/// Why a call of the engine was refused before anything was written or sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    /// The stable code.
    pub code: ErrorCode,
    /// The path of the wrong field, if there is one: `history[3].content`.
    pub field: Option<String>,
    /// What failed, with the value in backticks, and what to do.
    pub message: String,
    /// The provider's failure, if that was the cause.
    pub failure: Option<Box<AgentError>>,
}

/// The stable codes of [`EngineError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// An option of the engine is missing or wrong.
    InvalidOptions,
    /// A field of the context is missing or wrong.
    InvalidContext,
    /// The context names a provider that the engine does not have.
    UnknownProvider,
    /// No auth profile has that id.
    UnknownProfile,
    /// The model is not in the catalogue and has no declared window.
    UnknownModel,
    /// A tool has no name, a duplicate name, or a schema that does not compile.
    InvalidTool,
    /// The session label is not usable.
    InvalidLabel,
    /// A message has no target, or more than one, or one that does not exist.
    InvalidTarget,
    /// The arguments or the result of a call do not fit its tool.
    InvalidParams,
    /// The engine is closed.
    EngineClosed,
    /// The engine has no ledger.
    NoLedger,
    /// The engine has no memory.
    NoMemory,
    /// The ledger refused or failed.
    Storage(StorageErrorKind),
    /// A provider request outside a run failed.
    ProviderFailed,
    /// A manual compaction failed; the history is unchanged.
    CompactionFailed,
    /// An MCP server is not known, cannot be used, or answered an error.
    McpFailed,
    /// The result is longer than a string of JavaScript can be.
    ResultTooLarge,
    /// An internal error of the engine.
    Internal,
}

impl ErrorCode {
    /// The code's text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidOptions => "invalid_options",
            Self::InvalidContext => "invalid_context",
            Self::UnknownProvider => "unknown_provider",
            Self::UnknownProfile => "unknown_profile",
            Self::UnknownModel => "unknown_model",
            Self::InvalidTool => "invalid_tool",
            Self::InvalidLabel => "invalid_label",
            Self::InvalidTarget => "invalid_target",
            Self::InvalidParams => "invalid_params",
            Self::EngineClosed => "engine_closed",
            Self::NoLedger => "no_ledger",
            Self::NoMemory => "no_memory",
            Self::Storage(kind) => kind.code(),
            Self::ProviderFailed => "provider_failed",
            Self::CompactionFailed => "compaction_failed",
            Self::McpFailed => "mcp_failed",
            Self::ResultTooLarge => "result_too_large",
            Self::Internal => "internal",
        }
    }
}

impl EngineError {
    /// An error without a field.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let message = bounded(&message.into()).into_owned();
        Self { code, field: None, message, failure: None }
    }

    /// A wrong option.
    #[must_use]
    pub fn option(error: InputError) -> Self {
        Self::at(ErrorCode::InvalidOptions, error)
    }

    /// A wrong field of a context; its code follows from the field.
    #[must_use]
    pub fn context(error: InputError) -> Self {
        let code = if error.path == "sessionLabel" {
            ErrorCode::InvalidLabel
        } else if error.path == "tools" || error.path.starts_with("tools[") {
            ErrorCode::InvalidTool
        } else {
            ErrorCode::InvalidContext
        };
        Self::at(code, error)
    }

    /// An error at a field.
    #[must_use]
    pub fn at(code: ErrorCode, error: InputError) -> Self {
        let field = Some(clipped_path(&error.path).into_owned());
        Self { field, ..Self::new(code, error.to_string()) }
    }
}

/// Whether the process, or the system, has no free file descriptor.
#[must_use]
pub fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    // EMFILE and ENFILE; on Windows, the codes of files and of sockets.
    let codes: &[i32] = if cfg!(windows) { &[4, 10_024] } else { &[24, 23] };
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

impl From<StorageError> for EngineError {
    fn from(error: StorageError) -> Self {
        let field = error.field;
        Self { field, ..Self::new(ErrorCode::Storage(error.kind), error.message) }
    }
}

impl From<Failure> for EngineError {
    fn from(failure: Failure) -> Self {
        let error = failure.to_agent_error();
        let failure = Some(Box::new(error.clone()));
        Self { failure, ..Self::new(ErrorCode::ProviderFailed, error.message) }
    }
}
