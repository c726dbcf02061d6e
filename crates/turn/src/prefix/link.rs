//! Links of a cache chain: a 64-bit hash of everything that decides the bytes of a part of a request.
//!
//! An encoder is pure, so a projected message determines its bytes. A message's link has its role in the lowest two bits
//! and its pruning level in the next two, so that a stored chain has both. It must never contain more of a text.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::prune::Level;
use model::{Block, Message, RequestOptions, Role, ThinkingConfig, ToolDefinition};

/// A text alone.
pub fn text(text: &str) -> u64 {
    xxh3_64(text.as_bytes())
}

/// Several texts, each with its length.
pub fn named<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let mut hash = Xxh3::new();
    parts.into_iter().for_each(|part| feed(&mut hash, part));
    hash.digest()
}

/// A tool, with the bytes of its schema as they are sent.
pub fn tool(tool: &ToolDefinition) -> u64 {
    named([tool.name.as_str(), &tool.description, tool.parameters.get()])
}

/// The settings of thinking and tool choice.
pub fn settings(thinking: Option<&ThinkingConfig>, options: &RequestOptions) -> [u64; 2] {
    [json(&thinking), json(&options.tool_choice)]
}

fn json(value: &impl serde::Serialize) -> u64 {
    // Plain structs: serde_json cannot fail on them.
    text(&serde_json::to_string(value).unwrap_or_default())
}

/// A projected message with its pruning level.
pub fn link(message: &Message, level: Option<Level>) -> u64 {
    let mut hash = Xxh3::new();
    blocks(&mut hash, &message.blocks);
    let role = match message.role {
        Role::User => 0,
        Role::Assistant => 1,
        Role::Tool => 2,
        Role::System => 3,
    };
    let level = match level {
        None => 0,
        Some(Level::Trimmed) => 1,
        Some(Level::Cleared) => 2,
    };
    (hash.digest() & !0b1111) | (level << 2) | role
}

/// The role of a link's message.
pub(super) fn role_of(link: u64) -> Role {
    match link & 0b11 {
        0 => Role::User,
        1 => Role::Assistant,
        2 => Role::Tool,
        _ => Role::System,
    }
}

/// The pruning level of a link's message.
pub fn level_of(link: u64) -> Option<Level> {
    match (link >> 2) & 0b11 {
        1 => Some(Level::Trimmed),
        2 => Some(Level::Cleared),
        _ => None,
    }
}

fn feed(hash: &mut Xxh3, part: &str) {
    hash.update(&part.len().to_le_bytes());
    hash.update(part.as_bytes());
}

fn maybe(hash: &mut Xxh3, part: Option<&str>) {
    hash.update(&[u8::from(part.is_some())]);
    feed(hash, part.unwrap_or_default());
}

fn blocks(hash: &mut Xxh3, all: &[Block]) {
    hash.update(&all.len().to_le_bytes());
    for block in all {
        match block {
            // The origin of a text changes no byte of a request.
            Block::Text { text, provider_data, origin: _ } => {
                hash.update(b"t");
                feed(hash, text);
                maybe(hash, provider_data.as_deref());
            }
            Block::Image { mime_type, data } => {
                hash.update(b"i");
                feed(hash, mime_type);
                feed(hash, data);
            }
            Block::Thinking { thinking, signature, provider_data } => {
                hash.update(b"h");
                feed(hash, thinking);
                maybe(hash, signature.as_deref());
                maybe(hash, provider_data.as_deref());
            }
            Block::RedactedThinking { data, provider_data } => {
                hash.update(b"x");
                feed(hash, data);
                if let Some(provider_data) = provider_data {
                    feed(hash, provider_data);
                }
            }
            Block::ToolCall { id, name, arguments_json, incomplete, provider_data } => {
                hash.update(if *incomplete { b"C" } else { b"c" });
                feed(hash, id);
                feed(hash, name);
                feed(hash, arguments_json);
                maybe(hash, provider_data.as_deref());
            }
            Block::ToolResult { tool_call_id, tool_name, content, is_error } => {
                hash.update(if *is_error { b"R" } else { b"r" });
                feed(hash, tool_call_id);
                feed(hash, tool_name);
                blocks(hash, content);
            }
            Block::Opaque { raw_json } => {
                hash.update(b"o");
                feed(hash, raw_json);
            }
        }
    }
}
