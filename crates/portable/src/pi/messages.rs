//! The message of an entry that the model sees, with metadata for the fields that no block can hold.
//!
//! It must never drop a field: fields that are not in the blocks are in the metadata, from which an export reads them.

use serde_json::{Map, Value, json};

use super::content::{api_of, blocks, parts};
use super::entries::Entry;
use crate::iso_time;
use model::{Block, Message, Provenance, Role};

/// The first words of a summary in a context (docs/rules/compaction.md#summary-message).
const SUMMARY: &str = "[Previous conversation summary]:";

/// A message of an entry.
pub(super) struct EntryMessage {
    pub(super) message: Message,
    /// The entry without the content that is in the blocks.
    pub(super) entry: Map<String, Value>,
    /// The form of the content, if it is in the blocks: `text` or `parts`.
    pub(super) content: Option<&'static str>,
    pub(super) is_compaction: bool,
}

/// When an entry was written, in Unix milliseconds.
pub(super) fn time_of(entry: &Entry) -> Option<i64> {
    let stamp = |value: &Value| value.as_i64().or_else(|| iso_time::parse(value.as_str()?));
    entry
        .raw
        .get("message")
        .and_then(|message| message.get("timestamp"))
        .and_then(stamp)
        .or_else(|| entry.raw.get("timestamp").and_then(stamp))
}

/// The message of an entry; `Ok(None)` for one that the model does not see.
///
/// # Errors
/// The field that differs from pi's format.
pub(super) fn message_of(entry: &Entry) -> Result<Option<EntryMessage>, &'static str> {
    let created_at = time_of(entry).unwrap_or(0);
    let message = |role, blocks| Message {
        id: entry.id.clone(),
        role,
        blocks,
        sequence: 0,
        created_at,
        provenance: None,
        provider_stop_reason: None,
    };
    let summary_of = |text: String, is_compaction| {
        Ok(Some(EntryMessage {
            message: message(Role::User, vec![Block::text(text)]),
            entry: entry.raw.clone(),
            content: None,
            is_compaction,
        }))
    };
    match entry.kind() {
        "compaction" => {
            let summary = entry.text("summary").ok_or("is a compaction without a `summary`")?;
            summary_of(format!("{SUMMARY}\n\n{summary}"), true)
        }
        "branch_summary" => match entry.text("summary") {
            None | Some("") => Ok(None),
            Some(summary) => {
                summary_of(format!("[Summary of another branch]:\n\n{summary}"), false)
            }
        },
        "custom_message" => {
            let content = entry.raw.get("content").ok_or("has no `content`")?;
            let blocks =
                blocks(content, "").ok_or("has a `content` that is neither text nor parts")?;
            Ok(Some(EntryMessage {
                message: message(Role::User, blocks),
                entry: entry.raw.clone(),
                content: None,
                is_compaction: false,
            }))
        }
        "message" => {
            let Some(Value::Object(raw)) = entry.raw.get("message") else {
                return Err("is a message without a `message`");
            };
            of_message(entry, raw, message).map(Some)
        }
        _ => Ok(None),
    }
}

fn of_message(
    entry: &Entry,
    raw: &Map<String, Value>,
    message: impl Fn(Role, Vec<Block>) -> Message,
) -> Result<EntryMessage, &'static str> {
    const NO_CONTENT: &str = "is a message without a readable `content`";
    let text = |name: &str| raw.get(name).and_then(Value::as_str);
    let content = raw.get("content");
    let api = api_of(text("api").unwrap_or_default());
    let read = || content.and_then(|content| blocks(content, api)).ok_or(NO_CONTENT);
    let whole = |message: Message| {
        let entry = entry.raw.clone();
        Ok(EntryMessage { message, entry, content: None, is_compaction: false })
    };
    let read_message = match text("role").ok_or("is a message without a `role`")? {
        "user" => whole(message(Role::User, read()?)),
        "assistant" => {
            let mut message = message(Role::Assistant, read()?);
            let named = text("provider").zip(text("model")).filter(|_| !api.is_empty());
            message.provenance = named.map(|(provider, model)| Provenance {
                provider: provider.to_owned(),
                api: api.to_owned(),
                model: model.to_owned(),
                response_id: text("responseId").map(ToOwned::to_owned),
            });
            message.provider_stop_reason = text("stopReason").map(ToOwned::to_owned);
            whole(message)
        }
        "toolResult" => {
            let block = Block::ToolResult {
                tool_call_id: text("toolCallId").ok_or("answers no call")?.to_owned(),
                tool_name: text("toolName").unwrap_or_default().to_owned(),
                content: read()?,
                is_error: raw.get("isError") == Some(&Value::Bool(true)),
            };
            whole(message(Role::Tool, vec![block]))
        }
        "bashExecution" => {
            let command = text("command").unwrap_or_default();
            let output = text("output").unwrap_or_default();
            let text = format!("The user ran `{command}`:\n\n{output}");
            return whole(message(Role::User, vec![Block::text(text)]));
        }
        "compactionSummary" | "branchSummary" => {
            let summary = text("summary").ok_or(NO_CONTENT)?;
            let text = format!("{SUMMARY}\n\n{summary}");
            return whole(message(Role::User, vec![Block::text(text)]));
        }
        // Roles of extensions: the model sees them as user messages, if they have content.
        _ => whole(message(Role::User, read()?)),
    };
    let mut result = read_message?;
    // Content that an export can restore from the blocks is not stored twice.
    let inner = match result.message.blocks.as_slice() {
        [Block::ToolResult { content, .. }] => content.as_slice(),
        blocks => blocks,
    };
    let again = Value::Array(parts(inner, api, &mut std::collections::BTreeMap::new()));
    result.content = match content {
        Some(Value::String(_)) => Some("text"),
        Some(parts) if *parts == again => Some("parts"),
        _ => None,
    };
    if result.content.is_some()
        && let Some(Value::Object(message)) = result.entry.get_mut("message")
    {
        message.remove("content");
    }
    Ok(result)
}

/// The original entry, from a message and its metadata; `None` for a message that was not imported from an entry.
pub(super) fn original_entry(message: &Message, metadata: &Value) -> Option<Map<String, Value>> {
    let imported = metadata.get("pi")?;
    let Value::Object(mut entry) = imported.get("entry")?.clone() else { return None };
    let inner = match message.blocks.as_slice() {
        [Block::ToolResult { content, .. }] => content.as_slice(),
        blocks => blocks,
    };
    let content = match imported.get("content").and_then(Value::as_str) {
        Some("text") => Value::from(message.content()),
        Some(_) => {
            let api = message.provenance.as_ref().map_or("", |from| from.api.as_str());
            Value::Array(parts(inner, api, &mut std::collections::BTreeMap::new()))
        }
        None => return Some(entry),
    };
    if let Some(Value::Object(message)) = entry.get_mut("message") {
        message.insert("content".to_owned(), content);
    }
    Some(entry)
}

/// The metadata of a message: its entry, and the entries without a message before and after it.
pub(super) fn metadata(message: &EntryMessage, before: &[Value], after: &[Value]) -> String {
    let mut imported = json!({ "entry": message.entry });
    let mut put = |name: &str, value: Value| {
        if let Value::Object(imported) = &mut imported {
            imported.insert(name.to_owned(), value);
        }
    };
    if let Some(content) = message.content {
        put("content", Value::from(content));
    }
    if !before.is_empty() {
        put("before", Value::from(before));
    }
    if !after.is_empty() {
        put("after", Value::from(after));
    }
    json!({ "pi": imported }).to_string()
}
