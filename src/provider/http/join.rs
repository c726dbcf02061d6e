//! Where the transport meets the event reader, the error table and the redaction, each with its own room's signature.
//!
//! Provisional: it goes when those rooms are joined, and `mod.rs` then names them instead.

use crate::model::FailureKind;
use crate::provider::{Api, Completion, Decoder, DeltaSink, Failure, Flow};

/// Stands in for `provider::sse::StreamReader`: LF line ends only, one `data` line per event.
pub(crate) struct StreamReader {
    decoder: Box<dyn Decoder>,
    buffer: Vec<u8>,
    total: usize,
}

impl StreamReader {
    pub(crate) fn new(decoder: Box<dyn Decoder>) -> Self {
        Self { decoder, buffer: Vec::new(), total: 0 }
    }

    pub(crate) fn feed(&mut self, chunk: &[u8], sink: &mut dyn DeltaSink) -> Result<Flow, Failure> {
        self.total += chunk.len();
        if self.total > 256 * 1024 * 1024 {
            return Err(too_large("stream_too_large"));
        }
        self.buffer.extend_from_slice(chunk);
        while let Some(at) = memchr::memmem::find(&self.buffer, b"\n\n") {
            let rest = self.buffer.split_off(at + 2);
            let event = std::mem::replace(&mut self.buffer, rest);
            let text = String::from_utf8_lossy(&event);
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
            if let Some(data) = field("data: ")
                && self.decoder.event(field("event: ").unwrap_or(""), data.as_bytes(), sink)?
                    == Flow::End
            {
                return Ok(Flow::End);
            }
        }
        if self.buffer.len() > 16 * 1024 * 1024 {
            return Err(too_large("event_too_large"));
        }
        Ok(Flow::More)
    }

    pub(crate) fn end(mut self, sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        self.decoder.end(sink)
    }
}

fn too_large(code: &str) -> Failure {
    Failure::new(FailureKind::ServerError, code, "the stream is larger than its limit")
}

/// Stands in for `provider::classify::http_failure`.
pub(crate) fn http_failure(
    _api: Api,
    status: u16,
    _header: &dyn Fn(&str) -> Option<String>,
    _content_type: Option<&str>,
    body: &[u8],
    _now_ms: i64,
) -> Failure {
    let kind = match status {
        401 | 403 => FailureKind::Auth,
        402 => FailureKind::Billing,
        404 => FailureKind::ModelNotFound,
        408 => FailureKind::Timeout,
        429 => FailureKind::RateLimit,
        529 => FailureKind::Overloaded,
        500..=599 => FailureKind::ServerError,
        _ => FailureKind::Format,
    };
    let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
    Failure { status: Some(status), ..Failure::new(kind, "", text) }
}

/// Stands in for `provider::classify::ok_but_not_stream`.
pub(crate) fn ok_but_not_stream(status: u16, _content_type: Option<&str>, _body: &[u8]) -> Failure {
    let message = "the server answered with something that is not a stream";
    let failure = Failure::new(FailureKind::ServerError, "not_a_stream", message);
    Failure { status: Some(status), ..failure }
}

/// Stands in for `provider::redact::redact`.
pub(crate) fn redact(text: &str, live_keys: &[&str]) -> String {
    live_keys.iter().fold(text.to_owned(), |text, key| text.replace(key, "[***]"))
}
