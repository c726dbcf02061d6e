//! Errors inside a chat completion as failures. It must never read assistant prose.

use serde_json::value::RawValue;

use crate::Failure;
use crate::classify::{ErrorPayload, parse_error, payload_failure};
use crate::json::object_of;
use model::FailureKind;

/// An `error` object or text beside a choice, as if it were a body.
pub(super) fn wrapped(raw: &RawValue) -> ErrorPayload {
    parse_error(object_of("error", raw.get()).as_bytes()).unwrap_or_default()
}

/// The provider stopped its own answer: without a reason, the fault is its own.
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
        | FailureKind::Storage => failure,
    }
}

/// An error event whose data is no error of any shape: its text is what is known.
pub(super) fn unnamed(data: &[u8]) -> Failure {
    let message = String::from_utf8_lossy(data).into_owned();
    payload_failure(&ErrorPayload { message, ..ErrorPayload::default() })
}
