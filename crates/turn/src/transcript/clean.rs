//! Cleans one message: which of its blocks the target may receive.
//!
//! Owns the thinking rules and the definition of a usable call. It must never turn thinking into text, and never drop the
//! text of a user.

use std::borrow::Cow;

use serde_json::Value;

use super::piece::Piece;
use super::report::Dropped;
use super::target::Target;
use super::{provider_run, reasoning};
use model::{Api, Block, Message, Role, is_base64, repair_text};

/// The longest tool name that all APIs accept.
const MAX_NAME: usize = 64;
/// The prefix of a host's message where the API has no role for one.
const SYSTEM_MARK: &str = "[System message]\n";
/// The text of an empty tool result: some servers refuse an empty one.
const NO_OUTPUT: &str = "(no output)";
/// The prefix of a failed result that must be sent without its error flag.
const ERROR_MARK: &str = "[The tool reported an error.]";

/// The messages that one message becomes: none if no block remains, several if it had tool results beside other blocks. An
/// assistant message stays even if it is empty, because it ends the scope of the previous one.
pub(super) fn message(
    target: &Target,
    piece: Piece,
    message: &Message,
    dropped: &mut Dropped,
) -> Vec<Message> {
    let with = |role, blocks| Message { role, blocks, ..bare(message) };
    match message.role {
        Role::Assistant => {
            vec![with(Role::Assistant, assistant(target, piece, message, dropped))]
        }
        Role::User | Role::System | Role::Tool => {
            let mut out: Vec<Message> = results(target, &message.blocks)
                .map(|result| with(Role::Tool, vec![result]))
                .collect();
            let rest: Vec<Block> = message
                .blocks
                .iter()
                .filter(|block| message.role != Role::Tool && !block.is_result())
                .filter_map(visible)
                .collect();
            let results = message.blocks.iter().filter(|block| block.is_result()).count();
            dropped.other += message.blocks.len() - results - rest.len();
            if !rest.is_empty() {
                // No API accepts an image in a system message.
                let has_image = rest.iter().any(|block| matches!(block, Block::Image { .. }));
                out.push(match message.role {
                    Role::System if has_image || !target.takes_system() => {
                        with(Role::User, marked(rest))
                    }
                    Role::System => with(Role::System, rest),
                    Role::User | Role::Assistant | Role::Tool => with(Role::User, rest),
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

/// Whether an assistant message has more than thinking: APIs refuse one that has not.
pub(super) fn has_content(blocks: &[Block]) -> bool {
    blocks.iter().any(|block| match block {
        Block::Text { text, .. } => !text.trim().is_empty(),
        Block::ToolCall { .. } => true,
        Block::Opaque { raw_json } => provider_run::has_content(raw_json),
        Block::Image { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolResult { .. } => false,
    })
}

fn assistant(
    target: &Target,
    piece: Piece,
    message: &Message,
    dropped: &mut Dropped,
) -> Vec<Block> {
    let own = target.wrote(message.provenance.as_ref());
    // Opaque blocks go only to their own model, and only where none of the blocks around them is missing.
    let verbatim = own && !piece.is_interrupted();
    let thoughts = verbatim && !piece.is_edited();
    // The signature of a call is required whatever the turn's status; other provider data may refer to a missing block.
    let attached_to_calls = own && (verbatim || target.api == Api::GoogleGenerativeAi);
    let retain = |block: &Block| match block {
        Block::Text { text, provider_data, .. } => {
            let provider_data = provider_data.clone().filter(|_| verbatim);
            let provider_data = match target.api {
                Api::OpenaiResponses if !thoughts => provider_data.map(reasoning::without_id),
                Api::AnthropicMessages
                | Api::OpenaiChat
                | Api::OpenaiResponses
                | Api::GoogleGenerativeAi
                | Api::BedrockConverse
                | Api::Scripted => provider_data,
            };
            // A part without text may carry a signature, and stays in position.
            let signed = target.api == Api::GoogleGenerativeAi && provider_data.is_some();
            (signed || !text.trim().is_empty()).then(|| Block::Text {
                text: text.clone(),
                provider_data,
                origin: None,
            })
        }
        Block::Thinking { signature, .. } => {
            (thoughts && replayable(target.api, signature.as_deref())).then(|| block.clone())
        }
        Block::RedactedThinking { .. } => {
            (thoughts && takes_redacted(target.api)).then(|| block.clone())
        }
        Block::Opaque { raw_json } => {
            (verbatim && has_opaque(target.api) && provider_run::is_object(raw_json))
                .then(|| block.clone())
        }
        Block::ToolCall { id, name, arguments_json, incomplete, provider_data } => {
            (!incomplete && !id.is_empty() && usable_name(name)).then(|| Block::ToolCall {
                id: id.clone(),
                name: fitted_name(target.api, name),
                arguments_json: object(arguments_json).into_owned(),
                incomplete: false,
                provider_data: provider_data.clone().filter(|_| attached_to_calls),
            })
        }
        Block::Image { .. } | Block::ToolResult { .. } => None,
    };
    let mut retained: Vec<Option<Block>> = message.blocks.iter().map(retain).collect();
    reasoning::retain_pairs(target.api, &message.blocks, &mut retained);
    for (block, retained) in message.blocks.iter().zip(&retained) {
        if retained.is_none() {
            dropped.count(block);
        }
    }
    let mut blocks: Vec<Block> = retained.into_iter().flatten().collect();
    tidy_end(target.api, &mut blocks, dropped);
    blocks
}

/// Whether thinking may be sent back to its own API: Anthropic requires the signature, other APIs do not.
fn replayable(api: Api, signature: Option<&str>) -> bool {
    match api {
        Api::AnthropicMessages | Api::BedrockConverse => {
            signature.is_some_and(|signature| !signature.is_empty())
        }
        Api::OpenaiChat | Api::OpenaiResponses | Api::GoogleGenerativeAi | Api::Scripted => true,
    }
}

/// Whether the API has encrypted thinking blocks.
fn takes_redacted(api: Api) -> bool {
    match api {
        Api::AnthropicMessages | Api::BedrockConverse | Api::OpenaiResponses | Api::Scripted => {
            true
        }
        Api::OpenaiChat | Api::GoogleGenerativeAi => false,
    }
}

/// Whether the API has opaque blocks.
fn has_opaque(api: Api) -> bool {
    match api {
        Api::AnthropicMessages
        | Api::OpenaiResponses
        | Api::GoogleGenerativeAi
        | Api::BedrockConverse
        | Api::Scripted => true,
        Api::OpenaiChat => false,
    }
}

/// An answer may not end in thinking, nor, as the last message, in white space
/// (docs/rules/wire/anthropic.md#order-of-messages).
pub(super) fn tidy_end(api: Api, blocks: &mut Vec<Block>, dropped: &mut Dropped) {
    let may_end_in_thinking = match api {
        Api::AnthropicMessages | Api::BedrockConverse | Api::OpenaiResponses => false,
        Api::OpenaiChat | Api::GoogleGenerativeAi | Api::Scripted => true,
    };
    if !may_end_in_thinking {
        while let Some(block) = blocks
            .pop_if(|last| matches!(last, Block::Thinking { .. } | Block::RedactedThinking { .. }))
        {
            dropped.count(&block);
        }
    }
    if let Some(Block::Text { text, provider_data: None, .. }) = blocks.last_mut() {
        text.truncate(text.trim_end().len());
    }
}

fn usable_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// The name in a form that the API accepts: Google's names begin with a letter or an underscore.
pub(super) fn fitted_name(api: Api, name: &str) -> String {
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if api == Api::GoogleGenerativeAi && !begins_well {
        format!("_{name}")
    } else {
        name.to_owned()
    }
}

/// Arguments in a form that the APIs accept. A call with invalid arguments has an error result that quotes them; the call
/// itself stays, as `{}`, so that the model sees that result.
fn object(arguments_json: &str) -> Cow<'_, str> {
    let is_object = |text: &str| matches!(serde_json::from_str(text), Ok(Value::Object(_)));
    if is_object(arguments_json) {
        return Cow::Borrowed(arguments_json);
    }
    let repaired = repair_text(arguments_json);
    if is_object(&repaired) { repaired } else { Cow::Borrowed("{}") }
}

/// A block that a user message or a tool result may have: text that is not blank, and images of types that all APIs accept.
fn visible(block: &Block) -> Option<Block> {
    match block {
        Block::Text { text, .. } => (!text.trim().is_empty()).then(|| block.clone()),
        Block::Image { mime_type, data } => Some(match mime_type.as_str() {
            // Every provider refuses data that is not base64, in this turn and in every later one.
            _ if !data.is_empty() && !is_base64(data) => {
                Block::text("[An image was left out: its data is not base64.]")
            }
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
            if is_error && has_image && fails_in_text_only(target.api) {
                // There a failed result may have text only; the image stays, and a text replaces the flag.
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

/// Whether a failed result may have no image: Anthropic's rule, wherever its models are served.
fn fails_in_text_only(api: Api) -> bool {
    match api {
        Api::AnthropicMessages | Api::BedrockConverse => true,
        Api::OpenaiChat | Api::OpenaiResponses | Api::GoogleGenerativeAi | Api::Scripted => false,
    }
}

fn marked(mut blocks: Vec<Block>) -> Vec<Block> {
    match blocks.first_mut() {
        Some(Block::Text { text, .. }) => text.insert_str(0, SYSTEM_MARK),
        _ => blocks.insert(0, Block::text(SYSTEM_MARK.trim_end())),
    }
    blocks
}
