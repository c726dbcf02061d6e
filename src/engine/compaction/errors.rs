//! The errors and warnings of a context that does not fit. It must never contain a text of the conversation.

use model::{AgentError, AgentErrorKind, ErrorDetail, FailureKind, RunWarning};

pub(super) fn warning(code: &str, message: String) -> RunWarning {
    RunWarning { code: code.to_owned(), field: None, message }
}

/// The error of a context that does not fit and could not be compacted.
pub(crate) fn compaction_failure(why: &str) -> AgentError {
    overflow_error(
        AgentErrorKind::CompactionFailure,
        "compaction_failed",
        format!("the context does not fit, and could not be compacted: {why}"),
    )
}

pub(super) fn overflow_error(kind: AgentErrorKind, code: &str, message: String) -> AgentError {
    AgentError {
        kind,
        message,
        retryable: false,
        detail: ErrorDetail {
            kind: FailureKind::ContextOverflow,
            status: None,
            code: Some(code.to_owned()),
            retry_after_ms: None,
            retry_after_source: None,
        },
    }
}
