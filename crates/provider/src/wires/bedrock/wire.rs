//! The shapes of Converse's answers, borrowed from their bytes. It must never interpret them.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::ReportedUsage;
use crate::json::{Count, Text};

/// Any event of the stream. One flat shape, so that the most frequent event (a delta) is parsed once; its name is the
/// frame's.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event<'a> {
    #[serde(default)]
    pub(super) content_block_index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) delta: Option<DeltaBody<'a>>,
    #[serde(borrow, default)]
    pub(super) start: Option<Start<'a>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
}

/// The start of a block. Text and reasoning have no start event.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Start<'a> {
    #[serde(borrow, default)]
    pub(super) tool_use: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_result: Option<&'a RawValue>,
}

/// A delta of a block: one of these.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeltaBody<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) tool_use: Option<ToolDelta<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Option<ReasoningDelta<'a>>,
    #[serde(borrow, default)]
    pub(super) citation: Option<&'a RawValue>,
    /// The contents of a provider-run result.
    #[serde(borrow, default)]
    pub(super) tool_result: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ToolDelta<'a> {
    #[serde(borrow, default)]
    pub(super) input: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReasoningDelta<'a> {
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) signature: Text<'a>,
    #[serde(borrow, default)]
    pub(super) redacted_content: Text<'a>,
}

/// A call: whole, or its start without `input`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolUse<'a> {
    #[serde(borrow, default)]
    pub(super) tool_use_id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    /// `server_tool_use` for a provider-run tool.
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
}

impl ToolUse<'_> {
    /// Whether the call is for the client to run.
    pub(super) fn is_ours(&self) -> bool {
        self.kind.as_str() != "server_tool_use"
    }
}

/// A whole answer that is not a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer<'a> {
    #[serde(borrow, default)]
    pub(super) output: Option<Output<'a>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Output<'a> {
    #[serde(borrow, default)]
    pub(super) message: Option<Content<'a>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow, default)]
    pub(super) content: Vec<&'a RawValue>,
}

/// A whole block: one of these, or an opaque one.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Block<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) tool_use: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Option<Reasoning<'a>>,
    #[serde(borrow, default)]
    pub(super) citations_content: Option<Cited<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reasoning<'a> {
    #[serde(borrow, default)]
    pub(super) reasoning_text: Option<ReasoningDelta<'a>>,
    #[serde(borrow, default)]
    pub(super) redacted_content: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Cited<'a> {
    #[serde(borrow, default)]
    pub(super) content: Vec<CitedText<'a>>,
    #[serde(borrow, default)]
    pub(super) citations: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct CitedText<'a> {
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
}

/// The other members of a text block.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Attached<'a> {
    #[serde(borrow, default)]
    pub(super) citations: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Usage {
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    cache_write_input_tokens: Count,
}

/// Reads a `usage` object by the table of docs/rules/wire/usage.md#usage-mapping; `None` where it has no count.
pub(super) fn read_usage(raw: &str) -> Option<ReportedUsage> {
    let usage: Usage = serde_json::from_str(raw).ok()?;
    if usage.input_tokens.0.is_none() && usage.output_tokens.0.is_none() {
        return None;
    }
    Some(ReportedUsage {
        cache_write_hour: 0,
        input: usage.input_tokens.0.unwrap_or(0),
        output: usage.output_tokens.0.unwrap_or(0),
        cached: usage.cache_read_input_tokens.0.unwrap_or(0),
        cache_write: usage.cache_write_input_tokens.0.unwrap_or(0),
        // Converse does not distinguish it.
        reasoning: None,
    })
}
