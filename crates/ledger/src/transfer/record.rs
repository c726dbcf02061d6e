//! A session and a turn outside of SQLite: what a line of our own JSONL holds, and what other formats are read into.
//!
//! Plain data. It must never hold what only the file knows: depths and sums are told for the reader of a file, and
//! made anew when it is imported.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use model::{
    AgentToolCall, Attempt, CompactionResult, Message, SessionRow, TokenUsage, TurnError, TurnRow,
};

/// A session with the log of its pointer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct SessionRecord {
    #[serde(flatten)]
    pub(in super::super) session: SessionRow,
    /// Where the session pointed, oldest first.
    #[serde(default)]
    pub(in super::super) history: Vec<Moved>,
}

/// An entry of a session's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct Moved {
    pub(in super::super) turn_id: String,
    pub(in super::super) changed_at: i64,
}

/// A turn that has ended, with all that hangs on it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct TurnRecord {
    pub(in super::super) id: String,
    pub(in super::super) parent_turn_id: Option<String>,
    pub(in super::super) turn_type: String,
    pub(in super::super) status: String,
    pub(in super::super) session_label: String,
    pub(in super::super) run_id: String,
    /// Turns above it where it was exported: what finds its place again when its parent's line is lost.
    #[serde(default)]
    pub(in super::super) depth: i64,
    pub(in super::super) started_at: i64,
    pub(in super::super) completed_at: Option<i64>,
    pub(in super::super) model: Option<String>,
    pub(in super::super) provider: Option<String>,
    pub(in super::super) role: String,
    pub(in super::super) toolset_name: Option<String>,
    #[serde(default)]
    pub(in super::super) tools_available: Vec<String>,
    pub(in super::super) permissions_granted: Option<Box<RawValue>>,
    pub(in super::super) permissions_used: Option<Box<RawValue>>,
    pub(in super::super) usage: TokenUsage,
    #[serde(default)]
    pub(in super::super) usage_estimated: bool,
    pub(in super::super) context_tokens: Option<i64>,
    pub(in super::super) cost: Option<f64>,
    #[serde(default)]
    pub(in super::super) query_message_ids: Vec<String>,
    pub(in super::super) response_message_id: Option<String>,
    pub(in super::super) source_event_id: Option<String>,
    pub(in super::super) workspace_path: Option<String>,
    pub(in super::super) stop_reason: Option<String>,
    pub(in super::super) error: Option<TurnError>,
    #[serde(default)]
    pub(in super::super) attempts: Vec<Attempt>,
    pub(in super::super) compaction: Option<CompactionResult>,
    pub(in super::super) messages: Vec<MessageRecord>,
    #[serde(default)]
    pub(in super::super) tool_calls: Vec<AgentToolCall>,
}

/// A message, with what its origin said beyond it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct MessageRecord {
    #[serde(flatten)]
    pub(in super::super) message: Message,
    /// JSON text: what the format it was imported from said and no block holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) metadata_json: Option<String>,
}

impl TurnRecord {
    /// The turn as the ledger has it; `metadata` by message, in order.
    pub(in super::super) fn of(row: TurnRow, metadata: Vec<Option<String>>) -> Self {
        let mut metadata = metadata.into_iter();
        let messages = row
            .messages
            .into_iter()
            .map(|message| MessageRecord {
                message: message.into(),
                metadata_json: metadata.next().flatten(),
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
            stop_reason: row.stop_reason,
            error: row.error,
            attempts: row.attempts,
            compaction: row.compaction,
            messages,
            tool_calls: row.tool_calls,
        }
    }
}
