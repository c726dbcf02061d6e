//! The kind of an answer: its content type and encoding, and its body without a byte order mark.
//!
//! It must never read an API's JSON.

use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};

use super::errors::final_failure;
use super::sniff::BYTE_ORDER_MARK;
use crate::{Failure, Framing};
use model::FailureKind;

/// The kind of an answer's body.
pub(super) enum Content {
    Stream,
    Json,
    /// The server sent none; the first bytes decide.
    Unnamed,
    Other(String),
}

pub(super) fn content_type(response: &Response, framing: Framing) -> Content {
    let Some(value) = response.headers().get(CONTENT_TYPE) else { return Content::Unnamed };
    let value = value.to_str().unwrap_or("one that is no text");
    let essence = value.split(';').next().unwrap_or_default().trim();
    let stream = match framing {
        Framing::EventSource => "text/event-stream",
        Framing::AwsEventStream => "application/vnd.amazon.eventstream",
    };
    if essence.eq_ignore_ascii_case(stream) {
        Content::Stream
    } else if essence.eq_ignore_ascii_case("application/json") {
        Content::Json
    } else if essence.is_empty() {
        Content::Unnamed
    } else {
        Content::Other(value.to_owned())
    }
}

/// The engine requests no encoding; an encoded answer is refused before a byte of it is unpacked.
pub(super) fn check_encoding(response: &Response, origin: &str) -> Result<(), Failure> {
    let mut encodings = response.headers().get_all(CONTENT_ENCODING).iter();
    if encodings.all(|value| value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    let message = format!("`{origin}` answers with a content encoding that was not requested");
    let failure = final_failure(FailureKind::ServerError, "content_encoding", message);
    Err(Failure { status: Some(response.status().as_u16()), ..failure })
}

/// A body without the byte order mark it may begin with, which no JSON has.
pub(super) fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body)
}
