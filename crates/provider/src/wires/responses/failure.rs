//! The failures of a response. It must never read the model's text.

use crate::Failure;
use crate::classify::{ErrorPayload, parse_error, payload_failure};
use model::FailureKind;

/// The failure that an `error` event describes, or a body with an `error`.
pub(super) fn reported(data: &[u8]) -> Failure {
    let payload = parse_error(data).unwrap_or_else(|| ErrorPayload {
        message: String::from_utf8_lossy(data).into_owned(),
        ..ErrorPayload::default()
    });
    payload_failure(&payload)
}

/// The failure of a response that failed: the provider's fault, where it does not name whose.
pub(super) fn failed(data: &[u8]) -> Failure {
    let mut failure = payload_failure(&parse_error(data).unwrap_or_default());
    if failure.kind == FailureKind::Unknown {
        failure.kind = FailureKind::ServerError;
    }
    failure
}

/// The stream ended before the protocol did.
pub(super) fn truncated() -> Failure {
    Failure::new(
        FailureKind::Network,
        "stream_truncated",
        "the response ended before its `response.completed`; ask again",
    )
}

/// A second answer began in the middle of the first. The two are never joined (docs/rules/faults.md#untrue-and-repeated-events).
pub(super) fn spliced() -> Failure {
    Failure::new(
        FailureKind::Network,
        "stream_spliced",
        "a second response began before the first had ended; ask again",
    )
}

/// The fragments of a call are not the call: some were lost or repeated on the way.
pub(super) fn inconsistent() -> Failure {
    Failure::new(
        FailureKind::Network,
        "stream_inconsistent",
        "the fragments of a tool call do not add up to the call; ask again",
    )
}

/// A body that is no response: the error it describes, if it does.
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

/// A response that was handed over before it was done (`queued`, `in_progress`, `cancelled`).
pub(super) fn unfinished(status: &str) -> Failure {
    Failure::new(
        FailureKind::ServerError,
        "response_unfinished",
        format!("the response has the status `{status}` and no answer; ask again"),
    )
}
