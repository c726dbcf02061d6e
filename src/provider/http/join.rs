//! Where the transport meets the SSE parser and the error table. Provisional: see the notes at each item.

use crate::model::FailureKind;
use crate::provider::{Api, Failure, Flow};

/// Stands in for `provider::sse::SseParser`, with its signature: LF line ends only, one `data` line per event.
#[derive(Default)]
pub(crate) struct SseParser {
    buffer: Vec<u8>,
}

impl SseParser {
    pub(crate) fn feed(
        &mut self,
        chunk: &[u8],
        on_event: &mut dyn FnMut(&str, &[u8]) -> Result<Flow, Failure>,
    ) -> Result<Flow, Failure> {
        self.buffer.extend_from_slice(chunk);
        while let Some(at) = memchr::memmem::find(&self.buffer, b"\n\n") {
            let rest = self.buffer.split_off(at + 2);
            let event = std::mem::replace(&mut self.buffer, rest);
            let text = String::from_utf8_lossy(&event);
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
            if let Some(data) = field("data: ")
                && on_event(field("event: ").unwrap_or_default(), data.as_bytes())? == Flow::End
            {
                return Ok(Flow::End);
            }
        }
        if self.buffer.len() > 16 * 1024 * 1024 {
            let message = "an event is larger than 16 MiB";
            return Err(Failure::new(FailureKind::ServerError, "event_too_large", message));
        }
        Ok(Flow::More)
    }
}

/// Stands in for `provider::classify::http_failure`.
pub(crate) fn http_failure(
    _api: Api,
    status: u16,
    _headers: &dyn Fn(&str) -> Option<String>,
    _content_type: &str,
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
    Failure { status: Some(status), ..Failure::new(kind, "", format!("status `{status}`: {text}")) }
}

/// Stands in for `provider::classify::ok_but_not_stream`.
pub(crate) fn ok_but_not_stream(api: Api, content_type: &str, body: &[u8]) -> Failure {
    let failure = http_failure(api, 200, &|_| None, content_type, body, 0);
    Failure { kind: FailureKind::ServerError, code: Some("not_a_stream".to_owned()), ..failure }
}
