//! The failures of a response. It must never read the model's text.

use crate::Failure;
use crate::classify::{ErrorPayload, parse_error, payload_failure};
use model::FailureKind;

/// The failure of an `error` event, or of a body with an `error`.
pub(super) fn reported(data: &[u8]) -> Failure {
    let payload = parse_error(data).unwrap_or_else(|| ErrorPayload {
        message: String::from_utf8_lossy(data).into_owned(),
        ..ErrorPayload::default()
    });
    payload_failure(&payload)
}

/// The failure of a failed response: a server error, unless it names a cause.
pub(super) fn failed(data: &[u8]) -> Failure {
    let mut failure = payload_failure(&parse_error(data).unwrap_or_default());
    if failure.kind == FailureKind::Unknown {
        failure.kind = FailureKind::ServerError;
    }
    failure
}

/// The stream ended before its terminal event.
pub(super) fn truncated() -> Failure {
    Failure::new(
        FailureKind::Network,
        "stream_truncated",
        "the response ended before its `response.completed`; try again",
    )
}

/// A second answer began in the first. The two are never joined (docs/rules/faults.md#untrue-and-repeated-events).
pub(super) fn spliced() -> Failure {
    Failure::new(
        FailureKind::Network,
        "stream_spliced",
        "a second response began before the first had ended; try again",
    )
}

/// The fragments of a call do not equal the call: some were lost or repeated.
pub(super) fn inconsistent() -> Failure {
    Failure::new(
        FailureKind::Network,
        "stream_inconsistent",
        "the fragments of a tool call do not add up to the call; try again",
    )
}

/// The body is no response: its error, if it has one.
pub(super) fn not_a_response(body: &[u8]) -> Failure {
    parse_error(body).map_or_else(
        || {
            Failure::new(
                FailureKind::ServerError,
                "invalid_response",
                "the response is neither an event stream nor a response object; check the base URL",
            )
        },
        |payload| payload_failure(&payload),
    )
}

/// The response was returned before its end (`queued`, `in_progress`, `cancelled`).
pub(super) fn unfinished(status: &str) -> Failure {
    Failure::new(
        FailureKind::ServerError,
        "response_unfinished",
        format!("the response has the status `{status}` and no answer; try again"),
    )
}
