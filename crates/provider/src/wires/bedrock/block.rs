//! One content block of a response, and its final JSON. It must never emit a delta.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::wire::ToolUse;
use crate::json::{is_object, object_of, with_field};
use crate::members::Members;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Thinking,
    /// Encrypted reasoning: emitted when it is whole.
    Redacted,
    Call,
    /// A call of a tool that the provider runs.
    ServerCall,
    /// A call of an unknown tool: the provider's if its result follows, else one of the context's.
    Undecided,
    /// The result of such a tool.
    ServerResult,
    /// Citations without a text of their own.
    Citations,
    /// Arguments arrived for a call that has not begun: it is never complete.
    Orphan,
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) wire_index: u64,
    /// The neutral number, for emitted blocks.
    pub(super) index: u32,
    pub(super) kind: Kind,
    pub(super) closed: bool,
    /// Fragments were lost, so it never closes.
    pub(super) lossy: bool,
    /// The beginning of a provider-run tool's block.
    pub(super) start: String,
    /// Content that is emitted whole: an input, items joined by commas, encrypted reasoning.
    pub(super) gathered: String,
}

impl Block {
    /// Adds an item to a list without its brackets.
    pub(super) fn gather(&mut self, item: &str) {
        if !self.gathered.is_empty() {
            self.gathered.push(',');
        }
        self.gathered.push_str(item);
    }

    /// The whole block of a provider-run call; `None` where its input is not whole.
    pub(super) fn server_call(&self, input: &str) -> Option<String> {
        let input = if input.is_empty() { "{}" } else { input };
        if self.lossy || !is_object(input) {
            return None;
        }
        Some(object_of("toolUse", &with_field(&self.start, "input", input)?))
    }
}

/// The unknown members of a call.
pub(super) fn beside(call: &str) -> Option<String> {
    Members::of(call, |name| matches!(name, "toolUseId" | "name" | "input")).object("")
}

/// A whole call, as raw text and parsed.
pub(super) fn whole_call(raw: Option<&RawValue>) -> Option<(&RawValue, ToolUse<'_>)> {
    Some((raw?, serde_json::from_str(raw?.get()).ok()?))
}

/// Two pieces of base64 as the base64 of the bytes of both. A single piece stays byte for byte.
pub(super) fn joined(before: &str, piece: &str) -> String {
    if before.is_empty() {
        return piece.to_owned();
    }
    match (STANDARD.decode(before), STANDARD.decode(piece)) {
        (Ok(mut bytes), Ok(more)) => {
            bytes.extend_from_slice(&more);
            STANDARD.encode(bytes)
        }
        _ => format!("{before}{piece}"),
    }
}
