//! The shapes of Anthropic's answers, borrowed from their bytes. It must never interpret them.

use std::borrow::Cow;

use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::ReportedUsage;
use crate::json::{Count, Text};

/// Any event of the stream. One flat shape, so that the most frequent event (a delta) is parsed once; other parts stay raw.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) delta: Option<DeltaBody<'a>>,
    #[serde(borrow, default)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// The `delta` of `content_block_delta` and of `message_delta`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct DeltaBody<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) partial_json: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow, default)]
    pub(super) signature: Text<'a>,
    #[serde(borrow, default)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
}

/// A delta in exactly the form that Anthropic writes, which is nearly every event of a stream: only its string is parsed.
/// `None` for every other form; [`Event`] reads those.
pub(super) fn canonical_delta(data: &[u8]) -> Option<(u64, DeltaBody<'_>)> {
    let rest = data.strip_prefix(b"{\"type\":\"content_block_delta\",\"index\":")?;
    let (index, rest) = rest.split_at_checked(memchr(b',', rest)?)?;
    let index = std::str::from_utf8(index).ok()?.parse().ok()?;
    let rest = rest.strip_prefix(b",\"delta\":{\"type\":\"")?;
    let rest = rest.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end().strip_suffix(b"}")?;
    let kind = |name| Text(Cow::Borrowed(name));
    // The rest must be one JSON string; otherwise the event does not have this form.
    let text = |literal| serde_json::from_slice::<Text<'_>>(literal).ok();
    let body = if let Some(literal) = rest.strip_prefix(b"text_delta\",\"text\":") {
        DeltaBody { kind: kind("text_delta"), text: text(literal)?, ..DeltaBody::default() }
    } else if let Some(literal) = rest.strip_prefix(b"input_json_delta\",\"partial_json\":") {
        let partial_json = text(literal)?;
        DeltaBody { kind: kind("input_json_delta"), partial_json, ..DeltaBody::default() }
    } else {
        let literal = rest.strip_prefix(b"thinking_delta\",\"thinking\":")?;
        DeltaBody { kind: kind("thinking_delta"), thinking: text(literal)?, ..DeltaBody::default() }
    };
    Some((index, body))
}

/// Only the types: they distinguish an unknown event, which is skipped, from an invalid known one.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Kinds<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
}

/// Anything with a type.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Kind<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
}

/// A whole message: the body of an answer that is not a stream, or the content of `message_start`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct MessageBody<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) model: Text<'a>,
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// A content block of a known type.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ContentBlock<'a> {
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) citations: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow, default)]
    pub(super) signature: Text<'a>,
    #[serde(borrow, default)]
    pub(super) data: Text<'a>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_use_id: Text<'a>,
}

/// The `error` of an error event or body.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorBody<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) message: Text<'a>,
    #[serde(borrow, default)]
    pub(super) details: Option<ErrorDetails<'a>>,
}

/// The stable cause of an error.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorDetails<'a> {
    #[serde(borrow, default)]
    pub(super) error_code: Text<'a>,
}

/// The answer to a count.
#[derive(Debug, Deserialize)]
pub(super) struct Counted {
    pub(super) input_tokens: Option<u64>,
}

/// Usage, cumulative; a null or absent field has not changed.
#[derive(Debug, Default, Deserialize)]
pub(super) struct WireUsage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    cache_creation_input_tokens: Count,
    #[serde(default)]
    cache_creation: Option<CacheCreation>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
struct CacheCreation {
    #[serde(default)]
    ephemeral_5m_input_tokens: Count,
    #[serde(default)]
    ephemeral_1h_input_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Count,
}

impl WireUsage {
    /// Overwrites the reported counts, by the table of docs/rules/wire/usage.md#usage-mapping.
    pub(super) fn update(&self, usage: &mut ReportedUsage) {
        let written = self.cache_creation_input_tokens.0.or_else(|| {
            let parts = self.cache_creation.as_ref()?;
            match (parts.ephemeral_5m_input_tokens.0, parts.ephemeral_1h_input_tokens.0) {
                (None, None) => None,
                (short, long) => Some(short.unwrap_or(0).saturating_add(long.unwrap_or(0))),
            }
        });
        usage.input = self.input_tokens.0.unwrap_or(usage.input);
        usage.output = self.output_tokens.0.unwrap_or(usage.output);
        usage.cached = self.cache_read_input_tokens.0.unwrap_or(usage.cached);
        usage.cache_write = written.unwrap_or(usage.cache_write);
        let hour = self.cache_creation.as_ref().and_then(|it| it.ephemeral_1h_input_tokens.0);
        usage.cache_write_hour = hour.unwrap_or(usage.cache_write_hour);
        let thought = self.output_tokens_details.as_ref().and_then(|it| it.thinking_tokens.0);
        usage.reasoning = thought.or(usage.reasoning);
    }
}
