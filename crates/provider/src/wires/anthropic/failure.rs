//! Converts Anthropic's errors to failures. It must never read assistant prose.

use serde_json::value::RawValue;

use super::wire::ErrorBody;
use crate::Failure;
use crate::classify::{ErrorPayload, payload_failure};
use crate::json::Text;
use crate::wire::malformed;
use model::FailureKind;

/// The failure of an `error` object, in the stream or as a body.
pub(super) fn from_error(error: &RawValue) -> Failure {
    if let Ok(body) = serde_json::from_str::<ErrorBody<'_>>(error.get()) {
        return failure_from_error(&body);
    }
    match serde_json::from_str::<Text<'_>>(error.get()) {
        Ok(message) => failure_from_error(&ErrorBody { message, ..ErrorBody::default() }),
        Err(_) => malformed("an error"),
    }
}

fn failure_from_error(body: &ErrorBody<'_>) -> Failure {
    let given = |text: &Text<'_>| (!text.as_str().is_empty()).then(|| text.as_str().to_owned());
    let payload = ErrorPayload {
        error_type: given(&body.kind),
        code: body.details.as_ref().and_then(|details| given(&details.error_code)),
        message: body.message.as_str().to_owned(),
        ..ErrorPayload::default()
    };
    payload_failure(&payload)
}

/// The stream ended before its `message_stop`.
pub(super) fn truncated() -> Failure {
    Failure::new(
        FailureKind::Network,
        "stream_truncated",
        "the response ended before its `message_stop`; try again",
    )
}

/// A second answer began in the first. The two are never joined (docs/rules/faults.md#untrue-and-repeated-events).
pub(super) fn spliced() -> Failure {
    Failure::new(
        FailureKind::Network,
        "stream_spliced",
        "a second message began before the first had ended; try again",
    )
}

/// The body is no message.
pub(super) fn not_a_message() -> Failure {
    Failure::new(
        FailureKind::ServerError,
        "invalid_response",
        "the response is neither an event stream nor a message; check the base URL",
    )
}
