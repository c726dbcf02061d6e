//! The summariser's input: a conversation as plain text (docs/rules/compaction.md#summariser-input).
//!
//! No thinking, no details, no image bytes, no opaque blocks. It must never contain more of a tool result than the
//! summariser needs.

use super::chunk::Part;
use crate::estimate;
use model::{Block, BlockOrigin, Message, Role};

/// The maximum characters of one tool result, and of a text that the host put into a message.
const RESULT_CHARS: usize = 2_000;
/// The maximum characters of one call's arguments.
const ARGUMENT_CHARS: usize = 1_000;

/// The messages as the summariser reads them, one part each; messages without content are left out.
pub fn parts(messages: &[Message]) -> Vec<Part> {
    messages
        .iter()
        .filter_map(|message| {
            let text = text(message);
            (!text.is_empty()).then(|| Part { tokens: estimate::text_tokens(&text), text })
        })
        .collect()
}

fn text(message: &Message) -> String {
    let mut out = String::new();
    for block in &message.blocks {
        let line = match block {
            Block::Text { text, .. } if text.trim().is_empty() => continue,
            Block::Text { text, origin: Some(origin), .. } => {
                let name = match origin {
                    BlockOrigin::Event => "Event",
                    BlockOrigin::Memory => "Memory",
                };
                format!("[{name}]: {}", indented(&middle_cut(text, RESULT_CHARS)))
            }
            Block::Text { text, .. } => format!("[{}]: {text}", speaker(message.role)),
            Block::Image { .. } => format!("[{}]: [image]", speaker(message.role)),
            Block::ToolCall { name, arguments_json, .. } => {
                format!("[Assistant calls {name}]: {}", middle_cut(arguments_json, ARGUMENT_CHARS))
            }
            Block::ToolResult { tool_name, content, is_error, .. } => {
                let failed = if *is_error { " failed" } else { "" };
                let text_of = middle_cut(&text_of(content), RESULT_CHARS);
                format!("[Tool {tool_name}{failed}]: {}", indented(&text_of))
            }
            Block::Thinking { .. } | Block::RedactedThinking { .. } | Block::Opaque { .. } => {
                continue;
            }
        };
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&line);
    }
    out
}

/// The output of a tool, with all lines after the first indented: otherwise a line could look like a message of the user.
fn indented(text_of: &str) -> String {
    let mut out = String::with_capacity(text_of.len());
    let mut breaks = false;
    for c in text_of.chars() {
        // A line break of any kind; CR LF counts once, at the LF.
        let is_break =
            matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
        if breaks && !is_break {
            out.push_str("  ");
        }
        breaks = is_break;
        out.push(c);
    }
    out
}

fn speaker(role: Role) -> &'static str {
    match role {
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::System => "System",
        Role::Tool => "Tool",
    }
}

/// The text of a tool result, with images as `[image]`.
pub(super) fn text_of(content: &[Block]) -> String {
    let mut out = String::new();
    for block in content {
        match block {
            Block::Text { text, .. } => out.push_str(text),
            Block::Image { .. } => out.push_str("[image]"),
            Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolCall { .. }
            | Block::ToolResult { .. }
            | Block::Opaque { .. } => {}
        }
    }
    out
}

/// The text, or its beginning and its end with a marker between, cut on character boundaries.
fn middle_cut(text: &str, limit: usize) -> String {
    let chars = text.chars().count();
    if chars <= limit {
        return text.to_owned();
    }
    let half = limit / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(chars - half).collect();
    format!("{head}\n[… {} characters left out …]\n{tail}", chars - 2 * half)
}

/// Characters that remain of a truncated result's beginning, and of its end.
const HEAD_LENGTH: usize = 1_500;
const TAIL_LENGTH: usize = 1_500;

/// A message with truncated tool results; the ledger stores them whole. Idempotent.
pub fn truncate_results(message: &Message) -> Message {
    let blocks = message
        .blocks
        .iter()
        .map(|block| match block {
            Block::ToolResult { tool_call_id, tool_name, content, is_error } => Block::ToolResult {
                tool_call_id: tool_call_id.clone(),
                tool_name: tool_name.clone(),
                content: content.iter().map(shortened).collect(),
                is_error: *is_error,
            },
            Block::Text { .. }
            | Block::Image { .. }
            | Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolCall { .. }
            | Block::Opaque { .. } => block.clone(),
        })
        .collect();
    Message { blocks, ..message.clone() }
}

fn shortened(block: &Block) -> Block {
    match block {
        Block::Text { text, .. } => {
            // The limit includes the marker, so that a truncated text is never truncated again.
            const MOST: usize = HEAD_LENGTH + TAIL_LENGTH + 64;
            if text.chars().count() <= MOST {
                return block.clone();
            }
            Block::text(middle_cut(text, HEAD_LENGTH + TAIL_LENGTH))
        }
        Block::Image { .. } => Block::text("[An image was left out.]"),
        Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. }
        | Block::Opaque { .. } => block.clone(),
    }
}
