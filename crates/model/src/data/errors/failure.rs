//! The failure of one attempt: its class, its message, and how long to wait.
//!
//! Its message is redacted when it is created. It must never hold a header, a key or a prompt.

use std::time::Duration;

use crate::{AgentError, ErrorDetail, FailureKind, RetryAfterSource};

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The class (docs/rules/failover.md#failure-kinds).
    pub kind: FailureKind,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// A stable code: the provider's or the engine's (`stream_truncated`, `idle_timeout`, `connect`, …).
    pub code: Option<String>,
    /// What failed; redacted, at most a few hundred characters.
    pub message: String,
    /// The wait that the provider requests.
    pub retry_after: Option<Duration>,
    /// The engine's own cooldown of the profile, where the provider sent no time.
    pub cooldown: Option<Duration>,
    /// Whether the provider allows a retry (`x-should-retry`).
    pub should_retry: Option<bool>,
}

impl Failure {
    /// A failure with neither status nor hints.
    #[must_use]
    pub fn new(kind: FailureKind, code: &str, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            code: (!code.is_empty()).then(|| code.to_owned()),
            message: message.into(),
            retry_after: None,
            cooldown: None,
            should_retry: None,
        }
    }

    /// The public error of this failure.
    #[must_use]
    pub fn to_agent_error(&self) -> AgentError {
        let requested = self.retry_after.map(|wait| (wait, RetryAfterSource::Provider));
        let wait = requested.or(self.cooldown.map(|wait| (wait, RetryAfterSource::Cooldown)));
        AgentError {
            kind: self.kind.agent_kind(),
            message: self.message.clone(),
            // What would fail again unchanged (a certificate, a page in place of an answer) is marked where it is detected.
            retryable: self.should_retry.unwrap_or_else(|| self.kind.is_retryable()),
            detail: ErrorDetail {
                kind: self.kind,
                status: self.status,
                code: self.code.clone(),
                retry_after_ms: wait
                    .map(|(wait, _)| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
                retry_after_source: wait.map(|(_, source)| source),
            },
        }
    }
}
