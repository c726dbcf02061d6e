//! What an entry says to the model, as a message of ours, with what no block can hold kept beside it.
//!
//! It must never drop a field: what is not in the blocks is in the metadata, and an export finds it there.

use serde_json::{Map, Value, json};

use super::content::{api_of, blocks, parts};
use super::entries::Entry;
use crate::rows::iso_time;
use model::{Block, Message, Provenance, Role};

/// How a summary begins when it stands in a context (docs/rules/compaction.md#summary-message).
const SUMMARY: &str = "[Previous conversation summary]:";

/// A message of an entry.
pub(super) struct Speech {
    pub(super) message: Message,
    /// The entry, without what the blocks hold.
    pub(super) entry: Map<String, Value>,
    /// How the content was written, where the blocks hold it: `text` or `parts`.
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

/// The message of an entry; `Ok(None)` for one that says nothing to the model.
///
/// # Errors
/// What of it is not as pi writes it.
pub(super) fn speech(entry: &Entry) -> Result<Option<Speech>, &'static str> {
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
    let told = |text: String, is_compaction| {
        Ok(Some(Speech {
            message: message(Role::User, vec![Block::text(text)]),
            entry: entry.raw.clone(),
            content: None,
            is_compaction,
        }))
    };
    match entry.kind() {
        "compaction" => {
            let summary = entry.text("summary").ok_or("is a compaction without a `summary`")?;
            told(format!("{SUMMARY}\n\n{summary}"), true)
        }
        "branch_summary" => match entry.text("summary") {
            None | Some("") => Ok(None),
            Some(summary) => told(format!("[Summary of another branch]:\n\n{summary}"), false),
        },
        "custom_message" => {
            let content = entry.raw.get("content").ok_or("has no `content`")?;
            let blocks =
                blocks(content, "").ok_or("has a `content` that is neither text nor parts")?;
            Ok(Some(Speech {
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
) -> Result<Speech, &'static str> {
    const NO_CONTENT: &str = "is a message without a readable `content`";
    let text = |name: &str| raw.get(name).and_then(Value::as_str);
    let content = raw.get("content");
    let api = api_of(text("api").unwrap_or_default());
    let read = || content.and_then(|content| blocks(content, api)).ok_or(NO_CONTENT);
    let kept = |message: Message| {
        Ok(Speech { message, entry: entry.raw.clone(), content: None, is_compaction: false })
    };
    let speech = match text("role").ok_or("is a message without a `role`")? {
        "user" => kept(message(Role::User, read()?)),
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
            kept(message)
        }
        "toolResult" => {
            let block = Block::ToolResult {
                tool_call_id: text("toolCallId").ok_or("answers no call")?.to_owned(),
                tool_name: text("toolName").unwrap_or_default().to_owned(),
                content: read()?,
                is_error: raw.get("isError") == Some(&Value::Bool(true)),
            };
            kept(message(Role::Tool, vec![block]))
        }
        "bashExecution" => {
            let command = text("command").unwrap_or_default();
            let output = text("output").unwrap_or_default();
            let told = format!("The user ran `{command}`:\n\n{output}");
            return kept(message(Role::User, vec![Block::text(told)]));
        }
        "compactionSummary" | "branchSummary" => {
            let summary = text("summary").ok_or(NO_CONTENT)?;
            let told = format!("{SUMMARY}\n\n{summary}");
            return kept(message(Role::User, vec![Block::text(told)]));
        }
        // Roles that an extension has made: shown to the model as the user's, where they have a content.
        _ => kept(message(Role::User, read()?)),
    };
    let mut speech = speech?;
    // Kept once: what the blocks say comes from them again.
    let inner = match speech.message.blocks.as_slice() {
        [Block::ToolResult { content, .. }] => content.as_slice(),
        blocks => blocks,
    };
    let again = Value::Array(parts(inner, api, &mut std::collections::BTreeMap::new()));
    speech.content = match content {
        Some(Value::String(_)) => Some("text"),
        Some(parts) if *parts == again => Some("parts"),
        _ => None,
    };
    if speech.content.is_some()
        && let Some(Value::Object(message)) = speech.entry.get_mut("message")
    {
        message.remove("content");
    }
    Ok(speech)
}

/// The entry as it was, of what an import has kept; `None` where it was not imported.
pub(super) fn entry_again(message: &Message, metadata: &Value) -> Option<Map<String, Value>> {
    let kept = metadata.get("pi")?;
    let Value::Object(mut entry) = kept.get("entry")?.clone() else { return None };
    let inner = match message.blocks.as_slice() {
        [Block::ToolResult { content, .. }] => content.as_slice(),
        blocks => blocks,
    };
    let content = match kept.get("content").and_then(Value::as_str) {
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

/// What is kept beside a message.
pub(super) fn metadata(speech: &Speech, before: &[Value], after: &[Value]) -> String {
    let mut kept = json!({ "entry": speech.entry });
    let mut put = |name: &str, value: Value| {
        if let Value::Object(kept) = &mut kept {
            kept.insert(name.to_owned(), value);
        }
    };
    if let Some(content) = speech.content {
        put("content", Value::from(content));
    }
    if !before.is_empty() {
        put("before", Value::from(before));
    }
    if !after.is_empty() {
        put("after", Value::from(after));
    }
    json!({ "pi": kept }).to_string()
}
