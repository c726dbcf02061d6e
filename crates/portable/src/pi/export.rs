//! A session as pi's entries, version 3: imported entries unchanged, other messages in pi's form.
//!
//! An entry must never be written before its parent. The last line is the entry at which the session points.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::content::{parts, pi_api_of};
use super::entries::VERSION;
use super::messages::original_entry;
use crate::iso_time;
use crate::record::{MessageRecord, TurnRecord};
use model::{Block, Role, SessionRow, TokenUsage};

/// The lines of a session, the header first.
pub(crate) fn export(
    session: &SessionRow,
    turns: &[TurnRecord],
    left: &mut BTreeMap<String, u64>,
) -> Vec<Value> {
    let mut file = File {
        entries: Vec::new(),
        header: None,
        ids: HashSet::new(),
        last: HashMap::new(),
        first: HashMap::new(),
        left,
    };
    // Entries before the first message are written first: roots in any order may follow them.
    for message in turns.iter().flat_map(|turn| &turn.messages) {
        file.notes(&metadata_of(message), "before");
    }
    // The entry that will be written last.
    let mut final_entry = None;
    if session.thread_id.is_none() {
        final_entry = file.entries.pop();
    }
    for turn in turns {
        let (begun, last) = (file.entries.len(), file.turn(turn));
        if session.thread_id.as_ref() == Some(&turn.id) && file.entries.len() > begun {
            // The last note of the message, if there is one, was the end of the file.
            let is_note =
                file.entries.last().and_then(|entry| entry.get("id")?.as_str()) != last.as_deref();
            final_entry = if is_note { file.entries.pop() } else { None };
        }
    }
    file.end(session, final_entry);
    let cwd = turns.iter().rev().find_map(|turn| turn.workspace_path.clone()).unwrap_or_default();
    let id = session.origin_session_id.clone().unwrap_or_else(|| session.label.clone());
    let mut header = file.header.take().unwrap_or_else(|| {
        let new = json!({
            "id": id, "timestamp": iso_time::format(session.created_at), "cwd": cwd,
        });
        new.as_object().cloned().unwrap_or_default()
    });
    header.insert("type".to_owned(), Value::from("session"));
    header.insert("version".to_owned(), Value::from(VERSION));
    std::iter::once(Value::Object(header)).chain(file.entries).collect()
}

struct File<'a> {
    entries: Vec<Value>,
    header: Option<Map<String, Value>>,
    ids: HashSet<String>,
    /// The last entry of each turn, which its children follow, and the first, to which compactions refer.
    last: HashMap<String, String>,
    first: HashMap<String, String>,
    left: &'a mut BTreeMap<String, u64>,
}

impl File<'_> {
    /// Writes as the last line the entry at which the session points, which may be in the middle of the tree.
    fn end(&mut self, session: &SessionRow, final_entry: Option<Value>) {
        let head = session.thread_id.as_ref().and_then(|head| self.last.get(head)).cloned();
        let last = self.entries.last().and_then(|entry| entry.get("id")?.as_str());
        if let Some(entry) = final_entry {
            self.entries.push(entry);
        } else if !self.entries.is_empty() && last != head.as_deref() {
            let id = self.id(&session.label, "head");
            self.entries.push(json!({
                "type": "custom", "id": id, "parentId": head, "customType": "nexus.head",
                "timestamp": iso_time::format(session.updated_at),
            }));
        }
    }

    /// Writes a turn, and returns the id of its last message.
    fn turn(&mut self, turn: &TurnRecord) -> Option<String> {
        let above = turn.parent_turn_id.as_ref().and_then(|parent| self.last.get(parent)).cloned();
        let mut parent = above;
        let answers = turn.messages.iter().rev().find(|it| it.message.role == Role::Assistant);
        let last_answer = answers.map(|it| it.message.id.clone());
        for message in &turn.messages {
            let metadata = metadata_of(message);
            let is_last = last_answer.as_ref() == Some(&message.message.id);
            let entry = match original_entry(&message.message, &metadata) {
                Some(entry) => Some(entry),
                None if turn.compaction.is_some() => Some(self.compaction(turn)),
                None => self.entry(turn, message, is_last),
            };
            let Some(mut entry) = entry else { continue };
            let id = self.id(&turn.id, &message.message.id);
            let original = entry.get("parentId").and_then(Value::as_str);
            let follows = original.filter(|id| self.ids.contains(*id)).map(ToOwned::to_owned);
            let follows = follows.or_else(|| parent.clone());
            entry.insert("parentId".to_owned(), follows.map_or(Value::Null, Value::from));
            entry.insert("id".to_owned(), Value::from(id.as_str()));
            self.entries.push(Value::Object(entry));
            self.first.entry(turn.id.clone()).or_insert_with(|| id.clone());
            self.last.insert(turn.id.clone(), id.clone());
            parent = Some(id);
            self.notes(&metadata, "after");
        }
        // A turn without messages has no entry: its children follow its parent.
        if let Some(parent) = &parent {
            self.last.entry(turn.id.clone()).or_insert_with(|| parent.clone());
        }
        parent
    }

    /// Writes the entries without a message that were imported `before` or `after` a message.
    fn notes(&mut self, metadata: &Value, position: &str) {
        let notes = metadata.get("pi").and_then(|imported| imported.get(position)?.as_array());
        for note in notes.into_iter().flatten() {
            let Value::Object(note) = note else { continue };
            if note.get("type").and_then(Value::as_str) == Some("session") {
                self.header.get_or_insert_with(|| note.clone());
            } else if let Some(id) = note.get("id").and_then(Value::as_str)
                && self.ids.insert(id.to_owned())
            {
                self.entries.push(Value::Object(note.clone()));
            }
        }
    }

    /// Pi's id of a message: the original one if it was imported from pi, else eight digits derived from the engine's ids.
    fn id(&mut self, turn: &str, message: &str) -> String {
        let is_pi = (8..=36).contains(&message.len())
            && message.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        let mut id = message.to_owned();
        if !is_pi || self.ids.contains(&id) {
            let mut seed = xxh3_64(format!("{turn}/{message}").as_bytes());
            loop {
                id = format!("{:08x}", seed & 0xffff_ffff);
                if !self.ids.contains(&id) {
                    break;
                }
                seed = seed.wrapping_add(1);
            }
        }
        self.ids.insert(id.clone());
        id
    }

    fn compaction(&self, turn: &TurnRecord) -> Map<String, Value> {
        let Some(compaction) = &turn.compaction else { return Map::new() };
        let first_kept = self.first.get(&compaction.first_kept_turn_id);
        object(json!({
            "type": "compaction",
            "timestamp": iso_time::format(turn.started_at),
            "summary": compaction.summary,
            // Without an entry that was already written, nothing before the compaction is retained.
            "firstKeptEntryId": first_kept.cloned().unwrap_or_default(),
            "tokensBefore": compaction.tokens_before,
        }))
    }

    fn entry(
        &mut self,
        turn: &TurnRecord,
        record: &MessageRecord,
        is_last_answer: bool,
    ) -> Option<Map<String, Value>> {
        let message = &record.message;
        let at = message.created_at;
        let api = message.provenance.as_ref().map_or("", |from| from.api.as_str());
        let inner = match message.role {
            Role::User | Role::System => {
                if message.role == Role::System {
                    *self.left.entry("system_role".to_owned()).or_default() += 1;
                }
                let content = parts(&message.blocks, api, self.left);
                json!({ "role": "user", "content": content, "timestamp": at })
            }
            Role::Assistant => {
                let content = parts(&message.blocks, api, self.left);
                let has_calls =
                    message.blocks.iter().any(|it| matches!(it, Block::ToolCall { .. }));
                let stop = match turn.stop_reason.as_deref() {
                    _ if !is_last_answer => "toolUse",
                    Some("max_tokens") => "length",
                    Some("aborted") => "aborted",
                    Some("error" | "timeout") => "error",
                    _ if has_calls => "toolUse",
                    _ => "stop",
                };
                let from = message.provenance.as_ref();
                // The ledger has only the sums of a turn, so its last answer gets them.
                let usage = if is_last_answer { turn.usage } else { TokenUsage::default() };
                let cost = if is_last_answer { turn.cost.unwrap_or(0.0) } else { 0.0 };
                let mut inner = json!({
                    "role": "assistant",
                    "content": content,
                    "api": pi_api_of(api),
                    "provider": from.map(|it| it.provider.as_str()).or(turn.provider.as_deref()).unwrap_or_default(),
                    "model": from.map(|it| it.model.as_str()).or(turn.model.as_deref()).unwrap_or_default(),
                    "usage": {
                        "input": usage.input_tokens,
                        "output": usage.output_tokens,
                        "cacheRead": usage.cached_input_tokens,
                        "cacheWrite": usage.cache_write_tokens,
                        "totalTokens": usage.total_tokens,
                        "cost": { "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": cost },
                    },
                    "stopReason": stop,
                    "timestamp": at,
                });
                if let (Some(error), Value::Object(inner), "error") =
                    (&turn.error, &mut inner, stop)
                {
                    inner.insert("errorMessage".to_owned(), Value::from(error.message.as_str()));
                }
                inner
            }
            Role::Tool => {
                let Some(Block::ToolResult { tool_call_id, tool_name, content, is_error }) =
                    message.blocks.first()
                else {
                    return None;
                };
                json!({
                    "role": "toolResult",
                    "toolCallId": tool_call_id,
                    "toolName": tool_name,
                    "content": parts(content, api, self.left),
                    "isError": is_error,
                    "timestamp": at,
                })
            }
        };
        Some(object(
            json!({ "type": "message", "timestamp": iso_time::format(at), "message": inner }),
        ))
    }
}

/// The metadata of a message, which an import stores.
fn metadata_of(message: &MessageRecord) -> Value {
    let json = message.metadata_json.as_deref();
    json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
