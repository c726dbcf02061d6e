//! Reads one block of a message: the engine's form, the flat form of the broker interface, or pi's.
//!
//! It must never drop an unknown block: a part of the conversation would be lost silently.

use serde_json::Value;

use crate::data::input::field::{InputError, Parsed, missing};
use crate::data::input::json_value::{flag, optional_text, text};
use crate::data::input::quote::quoted;
use crate::{Block, BlockOrigin};

pub(super) fn block(path: &str, value: &Value) -> Parsed<Block> {
    let at = |field: &str| format!("{path}.{field}");
    let field = |name: &str| text(value.get(name), &at(name));
    let provider_data = optional_text(value.get("providerData"));
    Ok(match field("type")?.as_str() {
        "text" => Block::Text {
            text: field("text")?,
            provider_data,
            origin: origin(value.get("origin"), &at("origin"))?,
        },
        "image" => Block::Image { mime_type: field("mimeType")?, data: field("data")? },
        "thinking" if value.get("redacted").and_then(Value::as_bool) == Some(true) => {
            Block::RedactedThinking { data: field("thinkingSignature")?, provider_data }
        }
        "thinking" => Block::Thinking {
            thinking: field("thinking")?,
            signature: optional_text(value.get("signature"))
                .or_else(|| optional_text(value.get("thinkingSignature"))),
            provider_data,
        },
        "redacted_thinking" => Block::RedactedThinking { data: field("data")?, provider_data },
        "tool_call" => Block::ToolCall {
            id: field("id")?,
            name: field("name")?,
            arguments_json: field("argumentsJson")?,
            incomplete: value.get("incomplete").and_then(Value::as_bool).unwrap_or(false),
            provider_data,
        },
        "toolCall" => Block::ToolCall {
            id: field("id")?,
            name: field("name")?,
            arguments_json: match value.get("arguments") {
                Some(Value::Null) | None => "{}".to_owned(),
                Some(arguments @ Value::Object(_)) => arguments.to_string(),
                Some(_) => {
                    let message = "is not an object; pass parsed arguments, or `argumentsJson`";
                    return Err(InputError::new(at("arguments"), message));
                }
            },
            incomplete: false,
            provider_data: optional_text(value.get("thoughtSignature")),
        },
        "tool_result" => Block::ToolResult {
            tool_call_id: field("toolCallId")?,
            tool_name: optional_text(value.get("toolName")).unwrap_or_default(),
            content: match value.get("content") {
                Some(Value::Array(items)) => items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| {
                        let path = format!("{}[{index}]", at("content"));
                        match block(&path, item)? {
                            part @ (Block::Text { origin: None, .. } | Block::Image { .. }) => {
                                Ok(part)
                            }
                            Block::Text { .. } => Err(InputError::new(
                                format!("{path}.origin"),
                                "is not allowed in a result; leave it out",
                            )),
                            _ => Err(InputError::new(
                                format!("{path}.type"),
                                "is not allowed in a result; use `text` and `image`",
                            )),
                        }
                    })
                    .collect::<Parsed<Vec<_>>>()?,
                Some(Value::String(text)) => vec![Block::text(text.clone())],
                _ => return Err(missing(&at("content"))),
            },
            is_error: flag(value.get("isError"), &at("isError"))?,
        },
        "opaque" => {
            let raw_json = field("rawJson")?;
            // It is inserted into a request unchanged.
            if serde_json::from_str::<Value>(&raw_json).is_err() {
                return Err(InputError::new(at("rawJson"), "is not JSON"));
            }
            Block::Opaque { raw_json }
        }
        other => {
            return Err(InputError::new(
                at("type"),
                format!(
                    "{} is unknown; use `text`, `image`, `thinking`, `redacted_thinking`, `tool_call`, \
                     `tool_result` or `opaque`",
                    quoted(other)
                ),
            ));
        }
    })
}

fn origin(value: Option<&Value>, path: &str) -> Parsed<Option<BlockOrigin>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) if name == "event" => Ok(Some(BlockOrigin::Event)),
        Some(Value::String(name)) if name == "memory" => Ok(Some(BlockOrigin::Memory)),
        Some(_) => Err(InputError::new(path, "is neither `event` nor `memory`")),
    }
}
