//! Encodes projected messages as chat messages, written straight into one buffer.
//!
//! Pure: the same messages give the same bytes. It must never write reasoning that the server did not send itself.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::quirks::ChatQuirks;
use crate::image;
use crate::json::write_raw;
use crate::members::write_stored;
use model::{Block, Message, Role};

/// The assistant's text between a tool result and a user message, for servers that refuse the two in sequence.
pub(super) const BRIDGE: &[u8] = br#"{"role":"assistant","content":"Understood."}"#;

/// The end of every tool message. It is unambiguous at the end of a piece: inside a JSON string the quotes would be escaped.
pub(super) const TOOL_END: &[u8] = br#""role":"tool"}"#;

/// The start of every user message.
pub(super) const USER_START: &[u8] = br#"{"role":"user","#;

/// The messages as JSON objects with commas between them.
pub(super) fn encode(messages: &[Message], quirks: &ChatQuirks) -> Vec<u8> {
    let mut writer = Writer { out: Vec::with_capacity(estimate(messages)), quirks };
    let mut images = Vec::new();
    for message in messages {
        match message.role {
            Role::User | Role::Tool => {}
            Role::Assistant | Role::System => writer.tool_images(&mut images),
        }
        match message.role {
            Role::User if images.is_empty() => writer.user(&message.blocks),
            Role::User => writer.user_after_images(&mut images, &message.blocks),
            Role::Assistant => writer.assistant(&message.blocks),
            Role::System => writer.system(&message.blocks),
            Role::Tool => writer.tool(&message.blocks, &mut images),
        }
    }
    writer.tool_images(&mut images);
    writer.out
}

/// A JSON string.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    // Writing to a vector cannot fail, and a text is always serialisable.
    let _ = serde_json::to_writer(out, text);
}

/// One image of a tool result, and its call.
struct ToolImage<'a> {
    call: &'a str,
    tool: &'a str,
    mime_type: &'a str,
    data: &'a str,
}

struct Writer<'a> {
    out: Vec<u8>,
    quirks: &'a ChatQuirks,
}

impl Writer<'_> {
    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Splices JSON text. Servers refuse lone surrogates, even those they sent.
    fn json(&mut self, json: &str) {
        write_raw(&mut self.out, json);
    }

    fn next(&mut self) {
        if !self.out.is_empty() {
            self.out.push(b',');
        }
    }

    fn start_user(&mut self) {
        if self.quirks.bridge_after_tool && self.out.ends_with(TOOL_END) {
            self.next();
            self.out.extend_from_slice(BRIDGE);
        }
        self.next();
        self.out.extend_from_slice(USER_START);
        self.raw("\"content\":");
    }

    fn user(&mut self, blocks: &[Block]) {
        self.start_user();
        if blocks.iter().any(|block| matches!(block, Block::Image { .. })) {
            self.out.push(b'[');
            self.parts(blocks, &mut true);
            self.out.push(b']');
        } else {
            let text = texts(blocks, "\n\n");
            string(&mut self.out, &text);
        }
        self.out.push(b'}');
    }

    fn parts(&mut self, blocks: &[Block], first: &mut bool) {
        for block in blocks {
            match block {
                Block::Text { text, .. } => self.text_part(text, first),
                Block::Image { mime_type, data } => self.image_part(mime_type, data, first),
                Block::Thinking { .. }
                | Block::RedactedThinking { .. }
                | Block::ToolCall { .. }
                | Block::ToolResult { .. }
                | Block::Opaque { .. } => {}
            }
        }
    }

    fn system(&mut self, blocks: &[Block]) {
        self.next();
        self.raw("{\"role\":\"system\",\"content\":");
        string(&mut self.out, &texts(blocks, "\n\n"));
        self.out.push(b'}');
    }

    fn assistant(&mut self, blocks: &[Block]) {
        self.next();
        self.raw("{\"role\":\"assistant\",\"content\":");
        let text = texts(blocks, "");
        let has_calls = blocks.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        if text.is_empty() && has_calls {
            self.raw("null");
        } else {
            string(&mut self.out, &text);
        }
        self.reasoning(blocks, has_calls);
        if has_calls {
            self.raw(",\"tool_calls\":[");
            let mut first = true;
            for block in blocks {
                if let Block::ToolCall { id, name, arguments_json, provider_data, .. } = block {
                    if !std::mem::take(&mut first) {
                        self.out.push(b',');
                    }
                    self.raw("{\"id\":");
                    string(&mut self.out, id);
                    self.raw(",\"type\":\"function\",\"function\":{\"name\":");
                    string(&mut self.out, name);
                    self.raw(",\"arguments\":");
                    self.arguments(arguments_json);
                    let stored = provider_data.as_deref();
                    let function = field(stored, "function");
                    write_stored(&mut self.out, function.as_deref().map(RawValue::get), |name| {
                        matches!(name, "name" | "arguments")
                    });
                    self.out.push(b'}');
                    write_stored(&mut self.out, stored, |name| {
                        matches!(name, "id" | "type" | "index" | "function")
                    });
                    self.out.push(b'}');
                }
            }
            self.out.push(b']');
        }
        self.out.push(b'}');
    }

    /// Reasoning is sent back in its own field: details always, plain text only beside tool calls, where reasoning servers
    /// require it; elsewhere some servers refuse it.
    fn reasoning(&mut self, blocks: &[Block], has_calls: bool) {
        let mut text = String::new();
        let mut plain = None;
        let mut details: Option<Box<RawValue>> = None;
        for block in blocks {
            if let Block::Thinking { thinking, provider_data, .. } = block {
                text.push_str(thinking);
                let data = provider_data.as_deref();
                details = field(data, "reasoning_details").or(details);
                plain = plain.or_else(|| {
                    let name = field(data, "field")?;
                    match name.get() {
                        "\"reasoning_content\"" => Some("reasoning_content"),
                        "\"reasoning\"" => Some("reasoning"),
                        _ => None,
                    }
                });
            }
        }
        if let Some(details) = details.filter(|_| self.quirks.echo_reasoning) {
            self.raw(",\"reasoning_details\":");
            self.json(details.get());
            if !self.quirks.reasoning_content_required {
                return;
            }
        }
        if !has_calls {
            return;
        }
        let name = if self.quirks.reasoning_content_required {
            Some("reasoning_content")
        } else {
            plain.filter(|_| self.quirks.echo_reasoning)
        };
        if let Some(name) = name {
            self.raw(",\"");
            self.raw(name);
            self.raw("\":");
            string(&mut self.out, &text);
        }
    }

    /// A JSON string with a JSON object. Servers parse it, so any other value is wrapped in an object.
    fn arguments(&mut self, arguments: &str) {
        let trimmed = arguments.trim_start();
        if trimmed.is_empty() {
            self.raw("\"{}\"");
        } else if trimmed.starts_with('{') && serde_json::from_str::<IgnoredAny>(arguments).is_ok()
        {
            string(&mut self.out, arguments);
        } else {
            let mut wrapped = b"{\"invalid_arguments\":".to_vec();
            string(&mut wrapped, arguments);
            wrapped.push(b'}');
            string(&mut self.out, &String::from_utf8_lossy(&wrapped));
        }
    }

    fn tool<'b>(&mut self, blocks: &'b [Block], images: &mut Vec<ToolImage<'b>>) {
        for block in blocks {
            let Block::ToolResult { tool_call_id, tool_name, content, .. } = block else {
                continue;
            };
            self.next();
            self.raw("{\"tool_call_id\":");
            string(&mut self.out, tool_call_id);
            self.raw(",\"content\":");
            let mut text = texts(content, "\n");
            let before = images.len();
            for part in content {
                if let Block::Image { mime_type, data } = part {
                    images.push(ToolImage { call: tool_call_id, tool: tool_name, mime_type, data });
                }
            }
            if text.is_empty() {
                text.push_str(if images.len() > before {
                    "(the image follows)"
                } else {
                    "(no output)"
                });
            }
            string(&mut self.out, &text);
            self.out.push(b',');
            self.out.extend_from_slice(TOOL_END);
        }
    }

    /// Tool messages have text only: their images follow all of them, in a user message.
    fn tool_images(&mut self, images: &mut Vec<ToolImage<'_>>) {
        if !images.is_empty() {
            self.user_after_images(images, &[]);
        }
    }

    /// The images of tools and the user's text after them, in one message: some servers refuse two consecutive user messages.
    fn user_after_images(&mut self, images: &mut Vec<ToolImage<'_>>, blocks: &[Block]) {
        self.start_user();
        self.out.push(b'[');
        let mut first = true;
        let mut call = None;
        for image in images.drain(..) {
            if call != Some(image.call) {
                let text = format!("Image from tool `{}` (call `{}`):", image.tool, image.call);
                self.text_part(&text, &mut first);
                call = Some(image.call);
            }
            self.image_part(image.mime_type, image.data, &mut first);
        }
        self.parts(blocks, &mut first);
        self.raw("]}");
    }

    fn text_part(&mut self, text: &str, first: &mut bool) {
        if text.is_empty() {
            return;
        }
        if !std::mem::take(first) {
            self.out.push(b',');
        }
        self.raw("{\"type\":\"text\",\"text\":");
        string(&mut self.out, text);
        self.out.push(b'}');
    }

    fn image_part(&mut self, mime_type: &str, data: &str, first: &mut bool) {
        let Some(mime_type) = image::media_type(mime_type) else {
            return self.text_part(image::LEFT_OUT, first);
        };
        if !std::mem::take(first) {
            self.out.push(b',');
        }
        self.raw("{\"type\":\"image_url\",\"image_url\":{\"url\":");
        string(&mut self.out, &format!("data:{mime_type};base64,{data}"));
        self.raw("}}");
    }
}

/// The text blocks, joined; empty ones left out.
fn texts(blocks: &[Block], separator: &str) -> String {
    let mut out = String::new();
    for block in blocks {
        if let Block::Text { text, .. } = block
            && !text.is_empty()
        {
            if !out.is_empty() {
                out.push_str(separator);
            }
            out.push_str(text);
        }
    }
    out
}

/// One field of a block's stored provider data, verbatim.
fn field(provider_data: Option<&str>, name: &str) -> Option<Box<RawValue>> {
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(provider_data?).ok()?;
    fields.remove(name)
}

fn estimate(messages: &[Message]) -> usize {
    let block = |block: &Block| match block {
        Block::Text { text, .. } => text.len(),
        Block::Image { data, .. } => data.len(),
        Block::Thinking { thinking, provider_data, .. } => {
            thinking.len() + provider_data.as_ref().map_or(0, String::len)
        }
        Block::ToolCall { arguments_json, .. } => arguments_json.len() * 2 + 128,
        Block::ToolResult { content, .. } => content
            .iter()
            .map(|part| if let Block::Text { text, .. } = part { text.len() } else { 0 })
            .sum(),
        Block::RedactedThinking { .. } | Block::Opaque { .. } => 0,
    };
    messages.iter().flat_map(|message| &message.blocks).map(|b| block(b) * 17 / 16 + 64).sum()
}
