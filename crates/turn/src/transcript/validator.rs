//! What the APIs accept, written from docs/rules/wire/anthropic.md and docs/rules/wire/openai-chat.md and stricter than any
//! of them. For tests only; it must never share code with the projection it checks.

use std::collections::HashSet;

use serde_json::Value;

use super::Target;
use model::{Api, Block, Message, Role, is_base64};

/// The first rule that the transcript breaks.
pub(super) fn check(target: &Target, messages: &[Message]) -> Result<(), String> {
    let mut ids = HashSet::new();
    let mut open: Vec<(String, String)> = Vec::new();
    let mut previous: Option<Role> = None;
    for (index, message) in messages.iter().enumerate() {
        let fail = |why: &str| Err(format!("message {index}: {why}: {message:?}"));
        if message.blocks.is_empty() {
            return fail("empty");
        }
        if !open.is_empty() && message.role != Role::Tool {
            return fail("calls without results before it");
        }
        if previous.is_none() && matches!(message.role, Role::Assistant | Role::Tool) {
            return fail("the transcript does not begin with the user");
        }
        match message.role {
            Role::User => {
                if previous == Some(Role::User) {
                    return fail("two user messages");
                }
                if let Some(why) = message.blocks.iter().find_map(shown) {
                    return fail(why);
                }
            }
            Role::System => {
                if target.api == Api::AnthropicMessages {
                    return fail("no system messages here");
                }
                if let Some(why) = message.blocks.iter().find_map(shown) {
                    return fail(why);
                }
            }
            Role::Assistant => {
                if let Some(why) = assistant(target, message) {
                    return fail(why);
                }
                for block in &message.blocks {
                    if let Block::ToolCall { id, name, .. } = block {
                        if !ids.insert(id.clone()) {
                            return fail("an id twice");
                        }
                        open.push((id.clone(), name.clone()));
                    }
                }
            }
            Role::Tool => {
                let [Block::ToolResult { tool_call_id, tool_name, content, is_error }] =
                    message.blocks.as_slice()
                else {
                    return fail("not one result");
                };
                if open.first() != Some(&(tool_call_id.clone(), tool_name.clone())) {
                    return fail("a result out of place");
                }
                open.remove(0);
                if content.is_empty() {
                    return fail("an empty result");
                }
                if let Some(why) = content.iter().find_map(shown) {
                    return fail(why);
                }
                let text_only = content.iter().all(|part| matches!(part, Block::Text { .. }));
                if *is_error && !text_only && target.api == Api::AnthropicMessages {
                    return fail("a failed result with an image");
                }
            }
        }
        // A system message separates two user messages, but begins no exchange.
        if message.role != Role::System || previous.is_some() {
            previous = Some(message.role);
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("calls without results: {open:?}")) }
}

fn shown(block: &Block) -> Option<&'static str> {
    match block {
        Block::Text { text, .. } => text.trim().is_empty().then_some("blank text"),
        Block::Image { mime_type, data } => {
            let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
            (!known.contains(&mime_type.as_str()) || !is_base64(data)).then_some("unknown image")
        }
        _ => Some("a block that is not allowed here"),
    }
}

fn assistant(target: &Target, message: &Message) -> Option<&'static str> {
    let own = message.provenance.as_ref().is_some_and(|from| {
        (from.provider.as_str(), from.api.as_str(), from.model.as_str())
            == (target.provider.as_str(), target.api.as_str(), target.model.as_str())
    });
    let anthropic = target.api == Api::AnthropicMessages;
    let mut content = false;
    for block in &message.blocks {
        let why = match block {
            Block::Text { text, provider_data, .. } => {
                content = true;
                if text.trim().is_empty() {
                    Some("blank text")
                } else {
                    (provider_data.is_some() && !own).then_some("a foreign annotation")
                }
            }
            Block::Thinking { signature, .. } => {
                if own {
                    (anthropic && signature.is_none()).then_some("unsigned thinking")
                } else {
                    Some("foreign thinking")
                }
            }
            Block::RedactedThinking { .. } => (!own).then_some("foreign thinking"),
            Block::Opaque { .. } => {
                content = true;
                (!own).then_some("a foreign block")
            }
            Block::ToolCall { id, name, arguments_json, incomplete, provider_data } => {
                content = true;
                let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let id_char = |c: char| if anthropic { word(c) } else { c.is_ascii_graphic() };
                if *incomplete {
                    Some("an incomplete call")
                } else if id.is_empty()
                    // Ids of the target itself are valid in any form.
                    || (!own && (id.len() > 64 || !id.chars().all(id_char)))
                {
                    Some("an id outside the alphabet")
                } else if name.is_empty() || name.len() > 64 || !name.chars().all(word) {
                    Some("a name outside the alphabet")
                } else if !matches!(serde_json::from_str(arguments_json), Ok(Value::Object(_))) {
                    Some("arguments that are no object")
                } else {
                    (provider_data.is_some() && !own).then_some("a foreign signature")
                }
            }
            Block::Image { .. } | Block::ToolResult { .. } => Some("a block of another role"),
        };
        if why.is_some() {
            return why;
        }
    }
    match message.blocks.last() {
        _ if !content => Some("nothing but thinking"),
        Some(Block::Thinking { .. } | Block::RedactedThinking { .. })
            if anthropic || target.api == Api::OpenaiResponses =>
        {
            Some("ends in thinking")
        }
        Some(Block::Text { text, provider_data: None, .. })
            if text.ends_with(char::is_whitespace) =>
        {
            Some("ends in white space")
        }
        _ => None,
    }
}
