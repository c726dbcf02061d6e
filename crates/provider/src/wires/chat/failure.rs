//! Converts errors inside a chat completion to failures. It must never read assistant prose.

use serde_json::value::RawValue;

use crate::Failure;
use crate::classify::{ErrorPayload, parse_error, payload_failure};
use crate::json::object_of;
use model::FailureKind;

/// The failure of an `error` object or text beside a choice.
pub(super) fn wrapped(raw: &RawValue) -> ErrorPayload {
    parse_error(object_of("error", raw.get()).as_bytes()).unwrap_or_default()
}

/// The failure of an answer that the provider stopped: without a reason it is a server error.
pub(super) fn stopped(payload: &ErrorPayload) -> Failure {
    let failure = payload_failure(payload);
    match failure.kind {
        FailureKind::Unknown => Failure { kind: FailureKind::ServerError, ..failure },
        FailureKind::ContextOverflow
        | FailureKind::RateLimit
        | FailureKind::Overloaded
        | FailureKind::ServerError
        | FailureKind::Timeout
        | FailureKind::Network
        | FailureKind::Billing
        | FailureKind::Auth
        | FailureKind::AuthPermanent
        | FailureKind::ModelNotFound
        | FailureKind::Format
        | FailureKind::Refusal
        | FailureKind::Aborted
        | FailureKind::BudgetExceeded
        | FailureKind::PolicyMaxTokens
        | FailureKind::OutputInvalid
        | FailureKind::Storage => failure,
    }
}

/// The failure of an error event with unknown data: its text is the message.
pub(super) fn unnamed(data: &[u8]) -> Failure {
    let message = String::from_utf8_lossy(data).into_owned();
    payload_failure(&ErrorPayload { message, ..ErrorPayload::default() })
}
