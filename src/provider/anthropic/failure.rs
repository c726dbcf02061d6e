//! Anthropic's errors as failures. It must never read assistant prose.

use serde_json::value::RawValue;

use super::wire::ErrorBody;
use crate::model::FailureKind;
use crate::provider::Failure;
use crate::provider::json::Text;
use crate::provider::sse::MALFORMED_EVENT;

/// The longest message kept of an error, in characters.
const MESSAGE_LIMIT: usize = 300;

/// The failure an `error` object tells of, in the stream or as a body.
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
    let error_type = body.kind.as_str();
    let error_code = body.details.as_ref().map_or("", |details| details.error_code.as_str());
    let said = body.message.as_str();
    let kind = kind_of(error_type, error_code, said);
    let code = if error_code.is_empty() { error_type } else { error_code };
    let code = if code.is_empty() { "provider_error" } else { code };
    let mut message: String = said.chars().take(MESSAGE_LIMIT).collect();
    if message.is_empty() {
        message = format!("the provider reported `{code}` without a message");
    }
    Failure::new(kind, code, message)
}

fn kind_of(error_type: &str, error_code: &str, message: &str) -> FailureKind {
    let said = message.to_ascii_lowercase();
    if error_code.ends_with("spend_limit_reached") || said.contains("credit balance") {
        return FailureKind::Billing;
    }
    match error_type {
        "authentication_error" | "permission_error" => FailureKind::Auth,
        "billing_error" => FailureKind::Billing,
        "not_found_error" => FailureKind::ModelNotFound,
        "request_too_large" => FailureKind::ContextOverflow,
        "rate_limit_error" => FailureKind::RateLimit,
        "timeout_error" => FailureKind::Timeout,
        "overloaded_error" => FailureKind::Overloaded,
        "api_error" => FailureKind::ServerError,
        "invalid_request_error" => {
            let overflow = ["prompt is too long", "exceed context limit", "context window"];
            if overflow.iter().any(|text| said.contains(text)) {
                FailureKind::ContextOverflow
            } else {
                FailureKind::Format
            }
        }
        _ => FailureKind::Unknown,
    }
}

/// The stream ended before the protocol did.
pub(super) fn truncated() -> Failure {
    Failure::new(
        FailureKind::Network,
        "stream_truncated",
        "the response ended before its `message_stop`; ask again",
    )
}

/// A second answer began in the middle of the first. The two are never joined (FAULTS §1).
pub(super) fn spliced() -> Failure {
    Failure::new(
        FailureKind::Network,
        "stream_spliced",
        "a second message began before the first had ended; ask again",
    )
}

/// An event of a known type that cannot be read: to go on would lose a part of the answer.
pub(super) fn malformed(what: &str) -> Failure {
    Failure::new(
        FailureKind::ServerError,
        MALFORMED_EVENT,
        format!("the response has {what} that cannot be read; ask again"),
    )
}

/// A body that is no message.
pub(super) fn not_a_message() -> Failure {
    Failure::new(
        FailureKind::ServerError,
        "invalid_response",
        "the response is neither an event stream nor a message; check the base URL",
    )
}
