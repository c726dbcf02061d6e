//! Encodes projected messages as contents, written straight into one buffer.
//!
//! Pure: the same messages give the same bytes. A signature is sent back on exactly its own part. It must never write
//! thinking as text, nor an empty content, which the API refuses.

use crate::json::{List, is_object, write_arguments, write_raw, write_string};
use crate::members::{Members, write_stored};
use model::{Block, Message, Role};

/// The text of an empty tool result.
const NO_OUTPUT: &str = "(no output)";
/// The text of a tool result with images only.
const IMAGE_FOLLOWS: &str = "(the image follows)";

/// The fields of a part's signature and of its call.
const SIGNATURE: &str = "thoughtSignature";
const CALL: &str = "functionCall";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    User,
    Model,
    Tools,
}

fn speaker(message: &Message) -> Speaker {
    match message.role {
        Role::User | Role::System => Speaker::User,
        Role::Assistant => Speaker::Model,
        Role::Tool => Speaker::Tools,
    }
}

/// The contents as JSON objects with commas between them: one for each run of messages of one role. Tool results are a
/// content of their own, because the API counts them against the calls.
pub(super) fn messages(messages: &[Message]) -> Vec<u8> {
    let mut out = Vec::with_capacity(estimate(messages));
    for group in messages.chunk_by(|a, b| speaker(a) == speaker(b)) {
        let Some(speaker) = group.first().map(speaker) else { continue };
        let start = out.len();
        if start > 0 {
            out.push(b',');
        }
        out.extend_from_slice(match speaker {
            Speaker::Model => b"{\"role\":\"model\",\"parts\":[".as_slice(),
            Speaker::User | Speaker::Tools => b"{\"role\":\"user\",\"parts\":[",
        });
        let mut list = List { out: &mut out, any: false };
        let blocks = || group.iter().flat_map(|message| &message.blocks);
        match speaker {
            Speaker::Model => blocks().for_each(|block| model_part(&mut list, block)),
            Speaker::User | Speaker::Tools => {
                blocks().for_each(|block| result(&mut list, block));
                blocks().for_each(|block| result_images(&mut list, block));
                blocks().for_each(|block| user_part(&mut list, block));
            }
        }
        if list.any {
            out.extend_from_slice(b"]}");
        } else {
            out.truncate(start);
        }
    }
    out
}

fn user_part(list: &mut List<'_>, block: &Block) {
    match block {
        Block::Text { text, .. } => text_part(list, text),
        Block::Image { mime_type, data } => image_part(list, mime_type, data),
        Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. }
        | Block::Opaque { .. } => {}
    }
}

fn model_part(list: &mut List<'_>, block: &Block) {
    match block {
        Block::Text { text, provider_data, .. } => {
            if !text.is_empty() || is_signed(provider_data.as_deref()) {
                let out = list.item();
                out.extend_from_slice(b"{\"text\":");
                write_string(out, text);
                write_stored(out, provider_data.as_deref(), is_written);
                out.push(b'}');
            }
        }
        Block::Image { mime_type, data } => image_part(list, mime_type, data),
        // A thought without a signature is useless to the model, and is no text.
        Block::Thinking { thinking, signature: Some(signature), provider_data } => {
            let out = list.item();
            out.extend_from_slice(b"{\"text\":");
            write_string(out, thinking);
            out.extend_from_slice(b",\"thought\":true,\"thoughtSignature\":");
            write_string(out, signature);
            write_stored(out, provider_data.as_deref(), |name| {
                is_written(name) || name == SIGNATURE
            });
            out.push(b'}');
        }
        Block::ToolCall { id, name, arguments_json, incomplete: false, provider_data } => {
            let out = list.item();
            out.extend_from_slice(b"{\"functionCall\":{\"id\":");
            write_string(out, id);
            out.extend_from_slice(b",\"name\":");
            write_string(out, name);
            out.extend_from_slice(b",\"args\":");
            write_arguments(out, arguments_json);
            let stored = provider_data.as_deref().map(|json| Members::of(json, |_| false));
            if let Some(beside) = stored.as_ref().and_then(|stored| stored.get(CALL)) {
                write_stored(out, Some(beside.get()), |name| {
                    matches!(name, "id" | "name" | "args" | "partialArgs" | "willContinue")
                });
            }
            out.push(b'}');
            write_stored(out, provider_data.as_deref(), is_written);
            out.push(b'}');
        }
        Block::Opaque { raw_json } => {
            if is_object(raw_json) {
                write_raw(list.item(), raw_json);
            }
        }
        Block::Thinking { signature: None, .. }
        | Block::RedactedThinking { .. }
        | Block::ToolCall { incomplete: true, .. }
        | Block::ToolResult { .. } => {}
    }
}

/// A tool result, with the id and the name of its call.
fn result(list: &mut List<'_>, block: &Block) {
    let Block::ToolResult { tool_call_id, tool_name, content, is_error } = block else { return };
    let mut text = String::new();
    for part in content {
        if let Block::Text { text: more, .. } = part
            && !more.is_empty()
        {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(more);
        }
    }
    if text.is_empty() {
        text.push_str(if images(content).next().is_some() { IMAGE_FOLLOWS } else { NO_OUTPUT });
    }
    let out = list.item();
    out.extend_from_slice(b"{\"functionResponse\":{\"id\":");
    write_string(out, tool_call_id);
    out.extend_from_slice(b",\"name\":");
    write_string(out, tool_name);
    out.extend_from_slice(if *is_error {
        b",\"response\":{\"error\":".as_slice()
    } else {
        b",\"response\":{\"output\":"
    });
    write_string(out, &text);
    out.extend_from_slice(b"}}}");
}

/// The images of a tool result, after the results of all tools: only newer models accept them inside.
fn result_images(list: &mut List<'_>, block: &Block) {
    let Block::ToolResult { tool_call_id, tool_name, content, .. } = block else { return };
    for (position, (mime_type, data)) in images(content).enumerate() {
        if position == 0 {
            text_part(list, &format!("Image from tool `{tool_name}` (call `{tool_call_id}`):"));
        }
        image_part(list, mime_type, data);
    }
}

fn images(content: &[Block]) -> impl Iterator<Item = (&str, &str)> {
    content.iter().filter_map(|part| match part {
        Block::Image { mime_type, data } => Some((mime_type.as_str(), data.as_str())),
        Block::Text { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. }
        | Block::Opaque { .. } => None,
    })
}

fn text_part(list: &mut List<'_>, text: &str) {
    if !text.trim().is_empty() {
        let out = list.item();
        out.extend_from_slice(b"{\"text\":");
        write_string(out, text);
        out.push(b'}');
    }
}

fn image_part(list: &mut List<'_>, mime_type: &str, data: &str) {
    let out = list.item();
    out.extend_from_slice(b"{\"inlineData\":{\"mimeType\":");
    write_string(out, mime_type);
    out.extend_from_slice(b",\"data\":");
    write_string(out, data);
    out.extend_from_slice(b"}}");
}

/// Whether a part has a signature, which must be sent back. Provider data of other APIs has no such field.
fn is_signed(provider_data: Option<&str>) -> bool {
    provider_data.is_some_and(|json| Members::of(json, |_| false).get(SIGNATURE).is_some())
}

/// The members of a part that are written from the block itself.
fn is_written(name: &str) -> bool {
    matches!(name, "text" | "thought" | CALL)
}

fn estimate(messages: &[Message]) -> usize {
    fn size(block: &Block) -> usize {
        64 + match block {
            Block::Text { text, provider_data, .. } => {
                text.len() * 17 / 16 + provider_data.as_ref().map_or(0, String::len)
            }
            Block::Image { data, .. } => data.len(),
            Block::Thinking { thinking, signature, .. } => {
                signature.as_ref().map_or(0, |signature| signature.len() + thinking.len())
            }
            Block::ToolCall { arguments_json, provider_data, .. } => {
                arguments_json.len() + 128 + provider_data.as_ref().map_or(0, String::len)
            }
            Block::ToolResult { content, .. } => content.iter().map(size).sum::<usize>() + 128,
            Block::Opaque { raw_json } => raw_json.len(),
            Block::RedactedThinking { .. } => 0,
        }
    }
    messages.iter().flat_map(|message| &message.blocks).map(size).sum()
}
