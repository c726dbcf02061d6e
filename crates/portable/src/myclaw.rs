//! MyClaw's session files: flat lines `{role, content, toolCallId?, timestamp?, meta?}`.
//!
//! They are pi's messages in a flat form, so they are read as such. It must never guess a call that a line does not name:
//! parts that MyClaw's format omits (the calls of an old version) stay missing.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::record::TurnRecord;
use crate::iso_time;
use model::{Block, Role};

/// A line as an entry of pi; `None` if it does not have that shape.
pub(crate) fn entry(mut line: Map<String, Value>) -> Option<Map<String, Value>> {
    let content = line.remove("content")?;
    let text = match &content {
        Value::String(text) => text.clone(),
        _ => return None,
    };
    let meta = line.get("meta").cloned().unwrap_or_default();
    let stamp = line.get("timestamp").or_else(|| line.get("ts"));
    let at = stamp.and_then(|at| at.as_i64().or_else(|| iso_time::parse(at.as_str()?)));
    let message = match line.get("role")?.as_str()? {
        "user" | "system" => json!({ "role": "user", "content": text, "timestamp": at }),
        "assistant" => {
            let mut parts = Vec::new();
            if !text.is_empty() {
                parts.push(json!({ "type": "text", "text": text }));
            }
            for call in meta.get("toolCalls").and_then(Value::as_array).into_iter().flatten() {
                parts.push(json!({
                    "type": "toolCall",
                    "id": call.get("id")?.as_str()?,
                    "name": call.get("name")?.as_str()?,
                    "arguments": call.get("arguments").cloned().unwrap_or_else(|| json!({})),
                }));
            }
            json!({ "role": "assistant", "content": parts, "timestamp": at })
        }
        "tool" | "toolResult" => json!({
            "role": "toolResult",
            "toolCallId": line.get("toolCallId").and_then(Value::as_str)
                .or_else(|| meta.get("toolCallId")?.as_str())?,
            "toolName": meta.get("toolName").and_then(Value::as_str).unwrap_or_default(),
            "content": [{ "type": "text", "text": text }],
            "isError": meta.get("isError") == Some(&Value::Bool(true)),
            "timestamp": at,
        }),
        _ => return None,
    };
    let mut entry = Map::new();
    entry.insert("type".to_owned(), Value::from("message"));
    entry.insert("message".to_owned(), message);
    // The line without its text, so that an export restores it.
    entry.insert("myclaw".to_owned(), Value::Object(line));
    Some(entry)
}

/// The lines of a thread.
pub(crate) fn export(turns: &[TurnRecord], left: &mut BTreeMap<String, u64>) -> Vec<Value> {
    let mut lines = Vec::new();
    let mut count = |kind: &str| *left.entry(kind.to_owned()).or_default() += 1;
    for record in turns.iter().flat_map(|turn| &turn.messages) {
        let message = &record.message;
        let metadata: Value = record
            .metadata_json
            .as_deref()
            .and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or_default();
        let original = metadata.pointer("/pi/entry/myclaw").and_then(Value::as_object);
        let mut line = original.cloned().unwrap_or_else(|| new_line(record, &mut count));
        line.insert("content".to_owned(), Value::from(message.content()));
        lines.push(Value::Object(line));
    }
    lines
}

fn new_line(
    record: &super::record::MessageRecord,
    count: &mut impl FnMut(&str),
) -> Map<String, Value> {
    let message = &record.message;
    let mut line = Map::new();
    let role = match message.role {
        Role::User | Role::System => "user",
        Role::Assistant => "assistant",
        Role::Tool => "toolResult",
    };
    line.insert("role".to_owned(), Value::from(role));
    line.insert("timestamp".to_owned(), Value::from(message.created_at));
    let mut calls = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text { origin: None, .. } => {}
            Block::Text { .. } => count("injected_text"),
            Block::ToolCall { id, name, arguments_json, incomplete: false, .. } => {
                let arguments: Value = serde_json::from_str(arguments_json).unwrap_or_default();
                calls.push(json!({ "id": id, "name": name, "arguments": arguments }));
            }
            Block::ToolResult { tool_call_id, tool_name, is_error, .. } => {
                line.insert("toolCallId".to_owned(), Value::from(tool_call_id.as_str()));
                let meta = json!({ "toolName": tool_name, "isError": is_error });
                line.insert("meta".to_owned(), meta);
            }
            Block::Image { .. } => count("image"),
            Block::Thinking { .. } | Block::RedactedThinking { .. } => count("thinking"),
            Block::ToolCall { .. } => count("incomplete_tool_call"),
            Block::Opaque { .. } => count("provider_block"),
        }
    }
    if !calls.is_empty() {
        line.insert("meta".to_owned(), json!({ "toolCalls": calls }));
    }
    line
}
