//! Encodes projected messages as input items, written straight into one buffer.
//!
//! Pure: the same messages give the same bytes. It must never write reasoning of another API, or an id without its
//! reasoning.

use super::identity::{self, StoredText, stored_text_of};
use crate::json::{is_object, write_string};
use model::{Block, Message, Role};

/// The text of an empty tool result.
const NO_OUTPUT: &str = "(no output)";

/// The messages as JSON objects with commas between them.
pub(super) fn encode(messages: &[Message]) -> Vec<u8> {
    let mut writer = Writer { out: Vec::with_capacity(estimate(messages)) };
    for message in messages {
        match message.role {
            Role::User => writer.input_message("user", &message.blocks),
            Role::System => writer.input_message("system", &message.blocks),
            Role::Assistant => writer.assistant(&message.blocks),
            Role::Tool => writer.results(&message.blocks),
        }
    }
    writer.out
}

struct Writer {
    out: Vec<u8>,
}

impl Writer {
    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn string(&mut self, text: &str) {
        write_string(&mut self.out, text);
    }

    /// Begins an item.
    fn next(&mut self) {
        if !self.out.is_empty() {
            self.out.push(b',');
        }
    }

    /// A user or system message.
    fn input_message(&mut self, role: &str, blocks: &[Block]) {
        let before = self.out.len();
        self.next();
        self.raw("{\"type\":\"message\",\"role\":");
        self.string(role);
        self.raw(",\"content\":[");
        if self.parts(blocks) {
            self.raw("]}");
        } else {
            self.out.truncate(before);
        }
    }

    /// Text and images as content parts; true where there were any.
    fn parts(&mut self, blocks: &[Block]) -> bool {
        let mut any = false;
        for block in blocks {
            match block {
                Block::Text { text, .. } if !text.is_empty() => {
                    self.raw(if any { "," } else { "" });
                    self.raw("{\"type\":\"input_text\",\"text\":");
                    self.string(text);
                }
                Block::Image { mime_type, data } => {
                    self.raw(if any { "," } else { "" });
                    self.raw("{\"type\":\"input_image\",\"detail\":\"auto\",\"image_url\":");
                    self.string(&format!("data:{mime_type};base64,{data}"));
                }
                Block::Text { .. }
                | Block::Thinking { .. }
                | Block::RedactedThinking { .. }
                | Block::ToolCall { .. }
                | Block::ToolResult { .. }
                | Block::Opaque { .. } => continue,
            }
            any = true;
            self.out.push(b'}');
        }
        any
    }

    fn assistant(&mut self, blocks: &[Block]) {
        let mut paired = true;
        let mut rest = blocks;
        while let Some((block, after)) = rest.split_first() {
            rest = after;
            match block {
                Block::Text { text, provider_data, .. } if !text.is_empty() => {
                    let stored = stored_text_of(provider_data.as_deref());
                    let more = rest.iter().take_while(|next| is_same_message(stored, next)).count();
                    let (same, after) = rest.split_at(more);
                    rest = after;
                    self.message(block, same, stored, paired);
                }
                Block::Thinking { provider_data: Some(item), .. } => {
                    let before = self.out.len();
                    self.next();
                    if !identity::write_reasoning(&mut self.out, item) {
                        self.out.truncate(before);
                        paired = false;
                    }
                }
                Block::ToolCall { id, name, arguments_json, incomplete: false, provider_data } => {
                    self.call(id, name, arguments_json, provider_data.as_deref());
                }
                Block::Opaque { raw_json } if is_object(raw_json) => {
                    self.next();
                    identity::write_opaque(&mut self.out, raw_json);
                }
                Block::Thinking { .. } => paired = false,
                Block::Text { .. }
                | Block::Image { .. }
                | Block::RedactedThinking { .. }
                | Block::ToolCall { .. }
                | Block::ToolResult { .. }
                | Block::Opaque { .. } => {}
            }
        }
    }

    /// One message of the model: as its original item if that is stored, else as text.
    fn message(&mut self, first: &Block, more: &[Block], stored: StoredText<'_>, paired: bool) {
        let texts = || std::iter::once(first).chain(more);
        self.next();
        self.raw("{\"type\":\"message\",\"role\":\"assistant\"");
        let Some(item) = stored.item else {
            self.raw(",\"content\":");
            let text: String = texts().filter_map(text_of).map(|(text, _)| text).collect();
            self.string(&text);
            self.out.push(b'}');
            return;
        };
        identity::write_message_fields(&mut self.out, item, paired);
        self.raw(",\"content\":[");
        for (position, (text, stored)) in texts().filter_map(text_of).enumerate() {
            self.raw(if position > 0 { "," } else { "" });
            self.raw(if identity::is_refusal(stored) {
                "{\"type\":\"refusal\",\"refusal\":"
            } else {
                "{\"type\":\"output_text\",\"text\":"
            });
            self.string(text);
            if let Some(part) = stored.part {
                identity::write_part_fields(&mut self.out, part);
            }
            self.out.push(b'}');
        }
        self.raw("]}");
    }

    fn call(&mut self, id: &str, name: &str, arguments: &str, provider_data: Option<&str>) {
        self.next();
        self.raw("{\"type\":\"function_call\",\"call_id\":");
        self.string(id);
        self.raw(",\"name\":");
        self.string(name);
        self.raw(",\"arguments\":");
        // A call with other arguments than an object has an error result; its replay must still be an object.
        self.string(if is_object(arguments) { arguments } else { "{}" });
        if let Some(stored) = provider_data {
            identity::write_call(&mut self.out, stored);
        }
        self.out.push(b'}');
    }

    fn results(&mut self, blocks: &[Block]) {
        for block in blocks {
            let Block::ToolResult { tool_call_id, content, .. } = block else { continue };
            self.next();
            self.raw("{\"type\":\"function_call_output\",\"call_id\":");
            self.string(tool_call_id);
            self.raw(",\"output\":");
            if content.iter().any(|part| matches!(part, Block::Image { .. })) {
                self.out.push(b'[');
                self.parts(content);
                self.out.push(b']');
            } else {
                let texts: Vec<&str> =
                    content.iter().filter_map(text_of).map(|(text, _)| text).collect();
                let text = texts.join("\n");
                self.string(if text.is_empty() { NO_OUTPUT } else { &text });
            }
            self.out.push(b'}');
        }
    }
}

fn text_of(block: &Block) -> Option<(&str, StoredText<'_>)> {
    match block {
        Block::Text { text, provider_data, .. } if !text.is_empty() => {
            Some((text, stored_text_of(provider_data.as_deref())))
        }
        Block::Text { .. }
        | Block::Image { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. }
        | Block::Opaque { .. } => None,
    }
}

/// Whether a block is another part of the message item in `first`, or another text without a stored item.
fn is_same_message(first: StoredText<'_>, block: &Block) -> bool {
    let item = |stored: StoredText<'_>| stored.item.map(|item| item.get().to_owned());
    match block {
        Block::Text { provider_data, .. } => {
            item(first) == item(stored_text_of(provider_data.as_deref()))
        }
        Block::Image { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. }
        | Block::Opaque { .. } => false,
    }
}

fn estimate(messages: &[Message]) -> usize {
    fn block_size(block: &Block) -> usize {
        let stored = |data: &Option<String>| data.as_ref().map_or(0, String::len);
        match block {
            Block::Text { text, provider_data, .. } => text.len() + stored(provider_data),
            Block::Image { data, .. } => data.len(),
            Block::Thinking { provider_data, .. } => stored(provider_data),
            Block::ToolCall { arguments_json, provider_data, .. } => {
                arguments_json.len() * 5 / 4 + stored(provider_data)
            }
            Block::ToolResult { content, .. } => content.iter().map(block_size).sum(),
            Block::Opaque { raw_json } => raw_json.len(),
            Block::RedactedThinking { .. } => 0,
        }
    }
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    blocks.map(|block| block_size(block) * 17 / 16 + 128).sum()
}
