//! Frames that are no events: exceptions with a payload, and errors without one. It must never read an event's payload.

use serde::Deserialize;

use super::Headers;
use crate::Failure;
use crate::classify::{ErrorPayload, payload_failure};
use crate::json::{Count, Text};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Exception<'a> {
    #[serde(borrow, alias = "Message")]
    message: Text<'a>,
    /// The status of the model's own server.
    #[serde(rename = "originalStatusCode")]
    original_status: Count,
    #[serde(borrow, rename = "originalMessage")]
    original_message: Text<'a>,
}

/// The failure of a frame that is no event.
pub(crate) fn exception_failure(headers: &Headers<'_>, payload: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(payload);
    let given = |word: &str| (!word.is_empty()).then(|| word.to_owned());
    let name = given(headers.exception_type).or_else(|| given(headers.error_code));
    let (message, status) = match serde_json::from_str::<Exception<'_>>(&text) {
        Ok(exception) => {
            let message = match (exception.message.as_str(), exception.original_message.as_str()) {
                (message, "") => message.to_owned(),
                ("", original) => original.to_owned(),
                (message, original) if message.contains(original) => message.to_owned(),
                (message, original) => format!("{message}: {original}"),
            };
            let status = exception.original_status.0.and_then(|status| u16::try_from(status).ok());
            (message, status.filter(|status| (400..600).contains(status)))
        }
        Err(_) => (text.into_owned(), None),
    };
    let message = if message.is_empty() { headers.error_message.to_owned() } else { message };
    payload_failure(&ErrorPayload { error_type: name, status, message, ..ErrorPayload::default() })
}
