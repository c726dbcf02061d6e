//! What a recall reads of messages, and what it shows: the same for every ledger. It must never read a ledger.

use base::words::{excerpt, search_words};
use model::{Block, Message, RECALL, RecalledMessage, Role};

use crate::iso_time;

/// Characters of a message around the words that were found.
const EXCERPT: usize = 600;
/// Words of a query that are searched for.
pub const MOST_TERMS: usize = 16;
/// Turns whose tool results are read, because no index has them.
pub const MOST_TURNS: usize = 1_000;
/// Bytes of texts and images in them that are read.
pub const MOST_BYTES: usize = 8 * 1024 * 1024;

/// The words of a tool result; `None` for another message, and for a result of the recall tool itself.
#[must_use]
pub fn result_words(message: &Message) -> Option<String> {
    let (tool, text) = result_of(message)?;
    (tool != RECALL).then(|| search_words(&text))
}

fn result_of(message: &Message) -> Option<(&str, String)> {
    match message.blocks.first() {
        Some(Block::ToolResult { tool_name, content, .. }) if message.role == Role::Tool => {
            Some((tool_name, text_of(content)))
        }
        Some(_) | None => None,
    }
}

/// The bytes of texts and images.
#[must_use]
pub fn size(blocks: &[Block]) -> usize {
    blocks
        .iter()
        .map(|block| match block {
            Block::Text { text, .. } => text.len(),
            Block::Image { data, .. } | Block::RedactedThinking { data, .. } => data.len(),
            Block::Thinking { thinking, .. } => thinking.len(),
            Block::ToolCall { arguments_json, .. } => arguments_json.len(),
            Block::ToolResult { content, .. } => size(content),
            Block::Opaque { raw_json } => raw_json.len(),
        })
        .sum()
}

fn text_of(blocks: &[Block]) -> String {
    let texts: Vec<&str> = blocks.iter().filter_map(Block::as_text).collect();
    texts.join("\n")
}

/// A message that was found by the words of `query`.
#[must_use]
pub fn shown(message: &Message, turn_id: &str, query: &str) -> RecalledMessage {
    let (tool_name, text) = match result_of(message) {
        Some((tool, text)) => (Some(tool.to_owned()), text),
        None => (None, text_of(&message.blocks)),
    };
    RecalledMessage {
        role: message.role,
        tool_name,
        turn_id: turn_id.to_owned(),
        said_at: iso_time::format(message.created_at),
        excerpt: excerpt(&text, query, EXCERPT),
    }
}
