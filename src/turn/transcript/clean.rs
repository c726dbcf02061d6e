//! One message by itself: what of it the target may see.
//!
//! Owns the thinking rules and what counts as a usable call. It must never turn thinking into text, and never drop what
//! a user said.

use std::borrow::Cow;

use serde_json::Value;

use super::{Piece, Target};
use crate::model::{Api, Block, Message, Role, repair_text};

/// The longest tool name all APIs take.
const MAX_NAME: usize = 64;
/// What stands before a host's message where the API has no place for one.
const SYSTEM_MARK: &str = "[System message]\n";
/// What a tool said that said nothing: some servers refuse an empty result.
const NO_OUTPUT: &str = "(no output)";
/// What stands before a failed result that must travel without its error flag.
const ERROR_MARK: &str = "[The tool reported an error.]";

/// The messages one message comes to: none where nothing is left of it, several where it carried tool results beside
/// other things. An assistant message stays even if it is empty, because it ends the scope of the one before.
pub(super) fn message(target: &Target, piece: Piece, message: &Message) -> Vec<Message> {
    let with = |role, blocks| Message { role, blocks, ..bare(message) };
    match message.role {
        Role::Assistant => vec![with(Role::Assistant, assistant(target, piece, message))],
        Role::User | Role::System | Role::Tool => {
            let mut out: Vec<Message> = results(target, &message.blocks)
                .map(|result| with(Role::Tool, vec![result]))
                .collect();
            let rest: Vec<Block> = message.blocks.iter().filter_map(visible).collect();
            if !rest.is_empty() && message.role != Role::Tool {
                out.push(match (message.role, target.api) {
                    (Role::System, Api::AnthropicMessages) => with(Role::User, marked(rest)),
                    (Role::System, Api::OpenaiChat | Api::Scripted) => with(Role::System, rest),
                    (Role::User | Role::Assistant | Role::Tool, _) => with(Role::User, rest),
                });
            }
            out
        }
    }
}

/// The message without its blocks.
fn bare(message: &Message) -> Message {
    Message {
        id: message.id.clone(),
        role: message.role,
        blocks: Vec::new(),
        sequence: message.sequence,
        created_at: message.created_at,
        provenance: message.provenance.clone(),
        provider_stop_reason: message.provider_stop_reason.clone(),
    }
}

/// Whether an assistant message is more than thinking: APIs refuse one that is not.
pub(super) fn says_something(blocks: &[Block]) -> bool {
    blocks.iter().any(|block| match block {
        Block::Text { .. } | Block::ToolCall { .. } | Block::Opaque { .. } => true,
        Block::Image { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolResult { .. } => false,
    })
}

fn assistant(target: &Target, piece: Piece, message: &Message) -> Vec<Block> {
    let own = target.wrote(message.provenance.as_ref());
    // What only its own model understands, and only where nothing of its surroundings is missing.
    let verbatim = own && piece != Piece::Interrupted;
    let mut blocks: Vec<Block> = message
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text, provider_data } if !text.trim().is_empty() => Some(Block::Text {
                text: text.clone(),
                provider_data: provider_data.clone().filter(|_| verbatim),
            }),
            Block::Thinking { signature, .. }
                if verbatim && replayable(target.api, signature.as_deref()) =>
            {
                Some(block.clone())
            }
            Block::RedactedThinking { .. } | Block::Opaque { .. } if verbatim => {
                Some(block.clone())
            }
            Block::ToolCall { id, name, arguments_json, incomplete: false, provider_data }
                if !id.is_empty() && usable_name(name) =>
            {
                Some(Block::ToolCall {
                    id: id.clone(),
                    name: name.clone(),
                    arguments_json: object(arguments_json).into_owned(),
                    incomplete: false,
                    provider_data: provider_data.clone().filter(|_| own),
                })
            }
            Block::Text { .. }
            | Block::Image { .. }
            | Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolCall { .. }
            | Block::ToolResult { .. }
            | Block::Opaque { .. } => None,
        })
        .collect();
    tidy_end(target.api, &mut blocks);
    blocks
}

/// Anthropic takes thinking with its signature only; elsewhere thinking has none.
fn replayable(api: Api, signature: Option<&str>) -> bool {
    match api {
        Api::AnthropicMessages => signature.is_some_and(|signature| !signature.is_empty()),
        Api::OpenaiChat | Api::Scripted => true,
    }
}

/// An answer may end neither in thinking nor, should it be the last message, in white space (WIRE §1).
pub(super) fn tidy_end(api: Api, blocks: &mut Vec<Block>) {
    if api == Api::AnthropicMessages {
        while matches!(blocks.last(), Some(Block::Thinking { .. } | Block::RedactedThinking { .. }))
        {
            blocks.pop();
        }
    }
    if let Some(Block::Text { text, provider_data: None }) = blocks.last_mut() {
        text.truncate(text.trim_end().len());
    }
}

fn usable_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Arguments as the APIs take them. A call with broken arguments was answered with an error that quotes them; the call
/// itself stays, as `{}`, so that the model sees that answer.
fn object(arguments_json: &str) -> Cow<'_, str> {
    let is_object = |text: &str| matches!(serde_json::from_str(text), Ok(Value::Object(_)));
    if is_object(arguments_json) {
        return Cow::Borrowed(arguments_json);
    }
    let repaired = repair_text(arguments_json);
    if is_object(&repaired) { repaired } else { Cow::Borrowed("{}") }
}

/// A block a user or a tool may show: text that is not blank, and images of the types all APIs know.
fn visible(block: &Block) -> Option<Block> {
    match block {
        Block::Text { text, .. } => (!text.trim().is_empty()).then(|| block.clone()),
        Block::Image { mime_type, data } => Some(match mime_type.as_str() {
            "image/png" | "image/jpeg" | "image/gif" | "image/webp" if !data.is_empty() => {
                block.clone()
            }
            "image/jpg" if !data.is_empty() => {
                Block::Image { mime_type: "image/jpeg".to_owned(), data: data.clone() }
            }
            other => {
                let kind: String = other.chars().take(MAX_NAME).collect();
                Block::text(format!("[An image of type `{kind}` was left out.]"))
            }
        }),
        Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. }
        | Block::Opaque { .. } => None,
    }
}

fn results<'a>(target: &'a Target, blocks: &'a [Block]) -> impl Iterator<Item = Block> + 'a {
    blocks.iter().filter_map(|block| match block {
        Block::ToolResult { tool_call_id, tool_name, content, is_error } => {
            let mut content: Vec<Block> = content.iter().filter_map(visible).collect();
            let mut is_error = *is_error;
            let has_image = content.iter().any(|part| matches!(part, Block::Image { .. }));
            if is_error && has_image && target.api == Api::AnthropicMessages {
                // A failed result may hold text only there; the image stays, the flag becomes words.
                content.insert(0, Block::text(ERROR_MARK));
                is_error = false;
            }
            if content.is_empty() {
                content.push(Block::text(NO_OUTPUT));
            }
            Some(Block::ToolResult {
                tool_call_id: tool_call_id.clone(),
                tool_name: tool_name.clone(),
                content,
                is_error,
            })
        }
        Block::Text { .. }
        | Block::Image { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolCall { .. }
        | Block::Opaque { .. } => None,
    })
}

fn marked(mut blocks: Vec<Block>) -> Vec<Block> {
    match blocks.first_mut() {
        Some(Block::Text { text, .. }) => text.insert_str(0, SYSTEM_MARK),
        _ => blocks.insert(0, Block::text(SYSTEM_MARK.trim_end())),
    }
    blocks
}
