//! Reads messages: the engine's form, the flat form of the broker interface, or pi's.
//!
//! It must never guess a role, nor accept a block that no message of its role may have.

use serde_json::{Value, value::RawValue};

use crate::data::input::block::block;
use crate::data::input::field::{InputError, Parsed, missing, typed};
use crate::data::input::json_value::{checked_text, flag, optional_text, text, unix_ms};
use crate::data::input::quote::quoted;
use crate::{AgentMessage, Block, Message, Provenance, Role};

/// The defaults of a message: its id and its time.
pub struct Defaults<'a> {
    /// Creates a ULID.
    pub new_id: &'a mut dyn FnMut() -> String,
    /// Unix milliseconds.
    pub now_ms: i64,
}

/// Parses one message: the engine's form, the broker interface's flat form, or pi's (`toolResult`, `toolCall`, …).
///
/// # Errors
/// The first field that is missing or wrong, by its path below `path`.
pub fn parse_message(path: &str, json: &str, defaults: &mut Defaults<'_>) -> Parsed<Message> {
    let parsed: Value = serde_json::from_str(json)
        .map_err(|error| InputError::new(path, format!("is not usable JSON: {error}")))?;
    message(path, &parsed, defaults)
}

/// Parses the messages of a result that a broker writes itself.
///
/// # Errors
/// The first message that is wrong, by its path.
pub fn parse_agent_message(path: &str, json: &RawValue) -> Parsed<AgentMessage> {
    typed(path, json)
}

pub(super) fn message(path: &str, value: &Value, defaults: &mut Defaults<'_>) -> Parsed<Message> {
    let Value::Object(fields) = value else {
        return Err(InputError::new(path, "is not a message object"));
    };
    let at = |field: &str| format!("{path}.{field}");
    let role_name = text(fields.get("role"), &at("role"))?;
    let role = match role_name.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "tool" | "toolResult" => Role::Tool,
        other => {
            return Err(InputError::new(
                at("role"),
                format!(
                    "{} is unknown; use `user`, `assistant`, `system` or `tool`",
                    quoted(other)
                ),
            ));
        }
    };
    let parts = match fields.get("blocks") {
        Some(Value::Array(_)) => ("blocks", fields.get("blocks")),
        _ => ("content", fields.get("content")),
    };
    let mut blocks = match parts {
        (_, Some(Value::String(text))) => vec![Block::text(text.clone())],
        (name, Some(Value::Array(items))) => items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                let path = format!("{}[{index}]", at(name));
                block(&path, item).and_then(|block| allowed_in(&path, role, block))
            })
            .collect::<Parsed<Vec<_>>>()?,
        (_, Some(Value::Null) | None) => return Err(missing(&at("content"))),
        (name, Some(_)) => {
            return Err(InputError::new(at(name), "is neither a string nor an array of blocks"));
        }
    };
    if role == Role::Assistant
        && fields.get("blocks").is_none()
        && let Some(thinking) = checked_text(fields.get("thinking"), &at("thinking"))?
    {
        blocks.insert(0, Block::Thinking { thinking, signature: None, provider_data: None });
    }
    let is_result = matches!(blocks.as_slice(), [Block::ToolResult { .. }]);
    if role == Role::Tool && !is_result {
        blocks = vec![Block::ToolResult {
            tool_call_id: text(fields.get("toolCallId"), &at("toolCallId"))?,
            tool_name: checked_text(fields.get("toolName"), &at("toolName"))?.unwrap_or_default(),
            content: blocks,
            is_error: flag(fields.get("isError"), &at("isError"))?,
        }];
    }
    let time = if fields.contains_key("createdAt") { "createdAt" } else { "timestamp" };
    let created_at = unix_ms(fields.get(time), &at(time))?.unwrap_or(defaults.now_ms);
    Ok(Message {
        id: checked_text(fields.get("id"), &at("id"))?
            .filter(|id| !id.is_empty())
            .unwrap_or_else(|| (defaults.new_id)()),
        role,
        blocks,
        sequence: 0,
        created_at,
        provenance: provenance(fields),
        provider_stop_reason: optional_text(fields.get("providerStopReason")),
    })
}

fn provenance(fields: &serde_json::Map<String, Value>) -> Option<Provenance> {
    if let Some(given) = fields.get("provenance") {
        return serde_json::from_value(given.clone()).ok();
    }
    Some(Provenance {
        provider: optional_text(fields.get("provider"))?,
        api: match optional_text(fields.get("api"))?.as_str() {
            "openai-completions" => "openai-chat".to_owned(),
            other => other.to_owned(),
        },
        model: optional_text(fields.get("model"))?,
        response_id: optional_text(fields.get("responseId")),
    })
}

/// Checks that a message of this role may have the block. Otherwise no provider accepts it, and it would be lost.
pub(super) fn allowed_in(path: &str, role: Role, block: Block) -> Parsed<Block> {
    let refused = match (&block, role) {
        (
            Block::ToolCall { .. } | Block::Thinking { .. } | Block::RedactedThinking { .. },
            Role::User | Role::System | Role::Tool,
        ) => Some("assistant"),
        (Block::ToolResult { .. }, Role::Assistant | Role::System) => Some("tool"),
        (Block::Text { origin: Some(_), .. }, Role::Assistant | Role::System | Role::Tool) => {
            return Err(InputError::new(
                format!("{path}.origin"),
                format!("belongs into a message of role `user`, not of `{}`", role.as_str()),
            ));
        }
        _ => None,
    };
    match refused {
        None => Ok(block),
        Some(owner) => Err(InputError::new(
            format!("{path}.type"),
            format!("belongs into a message of role `{owner}`, not of `{}`", role.as_str()),
        )),
    }
}
