//! A session and a turn outside of SQLite: the content of a line of the engine's JSONL, and the target of other formats'
//! parsers.
//!
//! Plain data. It must never store derived values, except the depth: an import computes it again, and uses the stored one
//! only to reattach turns.

#![allow(missing_docs, reason = "the fields are those of the public rows of `model`")]

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use model::{
    AgentToolCall, Approval, Attempt, CompactionResult, Message, Metadata, RecordedLayer,
    SessionRow, TokenUsage, TurnError, TurnRow,
};

/// A session with the log of its pointer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    #[serde(flatten)]
    pub session: SessionRow,
    /// The turns at which the session pointed, oldest first.
    #[serde(default)]
    pub history: Vec<Moved>,
}

/// An entry of a session's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Moved {
    pub turn_id: String,
    pub changed_at: i64,
}

/// An ended turn with its messages, calls and compaction.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnRecord {
    pub id: String,
    pub parent_turn_id: Option<String>,
    pub turn_type: String,
    pub status: String,
    pub session_label: String,
    pub run_id: String,
    /// The number of its ancestors at the export: it is reattached by this number if its parent's line is lost.
    #[serde(default)]
    pub depth: i64,
    pub started_at: i64,
    pub completed_at: Option<i64>,
    pub model: Option<String>,
    pub provider: Option<String>,
    pub role: String,
    pub toolset_name: Option<String>,
    #[serde(default)]
    pub tools_available: Vec<String>,
    pub permissions_granted: Option<Box<RawValue>>,
    pub permissions_used: Option<Box<RawValue>>,
    pub usage: TokenUsage,
    #[serde(default)]
    pub usage_estimated: bool,
    pub context_tokens: Option<i64>,
    pub cost: Option<f64>,
    #[serde(default)]
    pub query_message_ids: Vec<String>,
    pub response_message_id: Option<String>,
    pub source_event_id: Option<String>,
    pub workspace_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    pub stop_reason: Option<String>,
    pub error: Option<TurnError>,
    #[serde(default)]
    pub attempts: Vec<Attempt>,
    pub compaction: Option<CompactionResult>,
    pub messages: Vec<MessageRecord>,
    #[serde(default)]
    pub tool_calls: Vec<AgentToolCall>,
    /// The decisions about its calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approval>,
}

/// A message, with the fields of its origin for which it has no column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageRecord {
    #[serde(flatten)]
    pub message: Message,
    /// JSON text: the fields of the imported format that are in no block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_json: Option<String>,
    /// What its context was put together from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<Vec<RecordedLayer>>,
}

/// The columns of a message that [`Message`] does not have.
#[derive(Debug, Default)]
pub struct MessageNotes {
    pub metadata_json: Option<String>,
    pub layers: Option<Vec<RecordedLayer>>,
}

impl TurnRecord {
    /// The record of a turn of the ledger; `notes` by message, in order.
    pub fn of(row: TurnRow, notes: Vec<MessageNotes>) -> Self {
        let mut notes = notes.into_iter();
        let messages = row
            .messages
            .into_iter()
            .map(|message| {
                let MessageNotes { metadata_json, layers } = notes.next().unwrap_or_default();
                MessageRecord { message: message.into(), metadata_json, layers }
            })
            .collect();
        Self {
            id: row.id,
            parent_turn_id: row.parent_turn_id,
            turn_type: row.turn_type,
            status: row.status,
            session_label: row.session_label,
            run_id: row.run_id,
            depth: row.depth,
            started_at: row.started_at,
            completed_at: row.completed_at,
            model: row.model,
            provider: row.provider,
            role: row.role,
            toolset_name: row.toolset_name,
            tools_available: row.tools_available,
            permissions_granted: row.permissions_granted,
            permissions_used: row.permissions_used,
            usage: row.usage,
            usage_estimated: row.usage_estimated,
            context_tokens: row.context_tokens,
            cost: row.cost,
            query_message_ids: row.query_message_ids,
            response_message_id: row.response_message_id,
            source_event_id: row.source_event_id,
            workspace_path: row.workspace_path,
            metadata: row.metadata,
            stop_reason: row.stop_reason,
            error: row.error,
            attempts: row.attempts,
            compaction: row.compaction,
            messages,
            tool_calls: row.tool_calls,
            approvals: Vec::new(),
        }
    }
}
