//! Encodes projected messages as Converse messages, written straight into one buffer.
//!
//! The same input gives the same bytes, for any model. It must never write what the API refuses: blank text, two
//! consecutive messages of one role, thinking without a signature, an incomplete call.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::wire::Attached;
use crate::json::{List, is_object, write_arguments, write_raw, write_string};
use crate::members::write_stored;
use model::{Block, Message};

/// The end of every user message. It is unambiguous at the end of a piece: inside a JSON string the quotes would be escaped.
pub(super) const USER_END: &[u8] = br#"],"role":"user"}"#;
const ASSISTANT_END: &[u8] = br#"],"role":"assistant"}"#;
/// The start of a call.
pub(super) const TOOL_USE: &[u8] = br#"{"toolUse":{"#;
/// The start of a tool result.
pub(super) const TOOL_RESULT: &[u8] = br#"{"toolResult":{"#;
/// The start of a failed result: some models refuse the status, and then it is removed again.
pub(super) const ERROR_STATUS: &[u8] = br#"{"toolResult":{"status":"error","#;

/// The text of an empty tool result.
const NO_OUTPUT: &str = "(no output)";

/// The messages as JSON objects joined by commas. Consecutive messages of one role become one; in a user message, the tool
/// results are first, in the order of their calls.
pub(super) fn messages(messages: &[Message]) -> Bytes {
    let mut out = Vec::with_capacity(256 * messages.len());
    for group in messages.chunk_by(|a, b| a.is_assistant() == b.is_assistant()) {
        let assistant = group.first().is_some_and(Message::is_assistant);
        let start = out.len();
        if start > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"content\":[");
        let mut list = List { out: &mut out, any: false };
        if assistant {
            let blocks = group.iter().flat_map(|message| &message.blocks);
            blocks.for_each(|block| write_block(&mut list, block));
        } else {
            Message::results_first(group).for_each(|block| write_block(&mut list, block));
        }
        if list.any {
            out.extend_from_slice(if assistant { ASSISTANT_END } else { USER_END });
        } else {
            out.truncate(start);
        }
    }
    Bytes::from(out)
}

fn write_block(list: &mut List<'_>, block: &Block) {
    match block {
        Block::Text { text, provider_data, .. } => {
            // Blank text is refused like empty text.
            if !text.trim().is_empty() {
                match citations(provider_data.as_deref()) {
                    Some(citations) => write_cited(list.item(), text, citations),
                    None => {
                        let out = list.item();
                        out.extend_from_slice(b"{\"text\":");
                        write_string(out, text);
                        out.push(b'}');
                    }
                }
            }
        }
        Block::Image { mime_type, data } => {
            let out = list.item();
            out.extend_from_slice(b"{\"image\":{\"format\":");
            write_string(out, mime_type.strip_prefix("image/").unwrap_or(mime_type));
            out.extend_from_slice(b",\"source\":{\"bytes\":");
            write_string(out, data);
            out.extend_from_slice(b"}}}");
        }
        Block::Thinking { thinking, signature: Some(signature), provider_data: _ } => {
            let out = list.item();
            out.extend_from_slice(b"{\"reasoningContent\":{\"reasoningText\":{\"text\":");
            write_string(out, thinking);
            out.extend_from_slice(b",\"signature\":");
            write_string(out, signature);
            out.extend_from_slice(b"}}}");
        }
        Block::RedactedThinking { data, .. } => {
            let out = list.item();
            out.extend_from_slice(b"{\"reasoningContent\":{\"redactedContent\":");
            write_string(out, data);
            out.extend_from_slice(b"}}");
        }
        Block::ToolCall { id, name, arguments_json, incomplete: false, provider_data } => {
            let out = list.item();
            out.extend_from_slice(TOOL_USE);
            out.extend_from_slice(b"\"toolUseId\":");
            write_string(out, id);
            out.extend_from_slice(b",\"name\":");
            write_string(out, name);
            out.extend_from_slice(b",\"input\":");
            write_arguments(out, arguments_json);
            write_stored(out, provider_data.as_deref(), |name| {
                matches!(name, "toolUseId" | "name" | "input")
            });
            out.extend_from_slice(b"}}");
        }
        Block::ToolResult { tool_call_id, tool_name: _, content, is_error } => {
            write_result(list.item(), tool_call_id, content, *is_error);
        }
        Block::Opaque { raw_json } => {
            if is_object(raw_json) {
                write_raw(list.item(), raw_json);
            }
        }
        Block::Thinking { signature: None, .. } | Block::ToolCall { incomplete: true, .. } => {}
    }
}

/// A result. Without a status it is a success.
fn write_result(out: &mut Vec<u8>, tool_call_id: &str, content: &[Block], is_error: bool) {
    out.extend_from_slice(if is_error { ERROR_STATUS } else { TOOL_RESULT });
    out.extend_from_slice(b"\"toolUseId\":");
    write_string(out, tool_call_id);
    out.extend_from_slice(b",\"content\":[");
    let mut list = List { out, any: false };
    for block in content {
        match block {
            Block::Text { text, .. } => write_block(&mut list, &Block::text(text)),
            Block::Image { .. } => write_block(&mut list, block),
            Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolCall { .. }
            | Block::ToolResult { .. }
            | Block::Opaque { .. } => {}
        }
    }
    if !list.any {
        write_block(&mut list, &Block::text(NO_OUTPUT));
    }
    out.extend_from_slice(b"]}}");
}

/// Text with its citations.
fn write_cited(out: &mut Vec<u8>, text: &str, citations: &RawValue) {
    out.extend_from_slice(b"{\"citationsContent\":{\"content\":[{\"text\":");
    write_string(out, text);
    out.extend_from_slice(b"}],\"citations\":");
    write_raw(out, citations.get());
    out.extend_from_slice(b"}}");
}

fn citations(provider_data: Option<&str>) -> Option<&RawValue> {
    serde_json::from_str::<Attached<'_>>(provider_data?).ok()?.citations
}
