//! Turns as a host reads them: their rows with messages and tool calls, with the broker interface's columns as fields.
//!
//! These are public types of the package. They must never be written back.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    AgentMessage, AgentToolCall, Attempt, CompactionResult, Limit, Metadata, MetadataFilter,
    TokenUsage, ToolCallStatus,
};

/// A message of a session's history, with the turn it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct HistoryMessage {
    /// The turn.
    pub turn_id: String,
    /// The message.
    #[serde(flatten)]
    pub message: AgentMessage,
}

/// Why a stored turn failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TurnError {
    /// The broker interface's kind.
    #[cfg_attr(feature = "testing", ts(type = "AgentErrorKind"))]
    pub kind: String,
    /// What failed and what to do about it.
    pub message: String,
    /// Whether the run may be tried again.
    pub retryable: bool,
    /// The stable code: the provider's, or the engine's (`interrupted`, `run_timeout`, …); null where there is none.
    pub code: Option<String>,
}

/// A turn with its messages and tool calls.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TurnRow {
    /// The turn's ULID.
    pub id: String,
    /// The turn it follows; null for a root.
    pub parent_turn_id: Option<String>,
    /// A run, or a summary of earlier turns.
    #[cfg_attr(feature = "testing", ts(type = "'normal' | 'compaction'"))]
    pub turn_type: String,
    /// Its status.
    #[cfg_attr(
        feature = "testing",
        ts(type = "'pending' | 'streaming' | 'completed' | 'aborted' | 'failed'")
    )]
    pub status: String,
    /// The session it was run in.
    pub session_label: String,
    /// The host's id of the run.
    pub run_id: String,
    /// The number of its ancestors: 0 for a root.
    pub depth: i64,
    /// True when another turn follows it.
    pub has_children: bool,
    /// Unix milliseconds.
    pub started_at: i64,
    /// Unix milliseconds.
    pub completed_at: Option<i64>,
    /// The model.
    pub model: Option<String>,
    /// The provider.
    pub provider: Option<String>,
    /// The role of the agent.
    #[cfg_attr(feature = "testing", ts(type = "AgentRole"))]
    pub role: String,
    /// The toolset's name.
    pub toolset_name: Option<String>,
    /// The names of the tools on offer.
    pub tools_available: Vec<String>,
    /// The permissions snapshot, as it was passed.
    #[cfg_attr(feature = "testing", ts(type = "unknown"))]
    pub permissions_granted: Option<Box<RawValue>>,
    /// The permissions that were used, where the host recorded them.
    #[cfg_attr(feature = "testing", ts(type = "unknown"))]
    pub permissions_used: Option<Box<RawValue>>,
    /// The sum over the turn's provider calls.
    pub usage: TokenUsage,
    /// True when a part of it was estimated.
    pub usage_estimated: bool,
    /// The tokens of this turn and its ancestors.
    pub thread_tokens: i64,
    /// The size of the context after the last call; null while unknown.
    pub context_tokens: Option<i64>,
    /// US dollars; null where a price is unknown.
    pub cost: Option<f64>,
    /// The ids of the user messages.
    pub query_message_ids: Vec<String>,
    /// The id of the final assistant message.
    pub response_message_id: Option<String>,
    /// The number of its tool calls.
    pub tool_call_count: i64,
    /// The event that triggered it.
    pub source_event_id: Option<String>,
    /// The workspace's root.
    pub workspace_path: Option<String>,
    /// The host's own data; null where there is none.
    #[cfg_attr(feature = "testing", ts(type = "Record<string, unknown> | null"))]
    pub metadata: Option<Metadata>,
    /// Why the agent stopped.
    #[cfg_attr(feature = "testing", ts(type = "StopReason | null"))]
    pub stop_reason: Option<String>,
    /// Why it failed.
    pub error: Option<TurnError>,
    /// Every attempt at a provider.
    pub attempts: Vec<Attempt>,
    /// The compaction of a compaction turn.
    pub compaction: Option<CompactionResult>,
    /// The messages, in order.
    pub messages: Vec<AgentMessage>,
    /// The tool calls, in order.
    pub tool_calls: Vec<AgentToolCall>,
}

/// A turn without its messages and tool calls; `ledger.turn(id)` returns them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TurnSummary {
    /// The turn's ULID.
    pub id: String,
    /// The turn it follows; null for a root.
    pub parent_turn_id: Option<String>,
    /// A run, or a summary of earlier turns.
    #[cfg_attr(feature = "testing", ts(type = "'normal' | 'compaction'"))]
    pub turn_type: String,
    /// Its status.
    #[cfg_attr(feature = "testing", ts(type = "'completed' | 'aborted' | 'failed'"))]
    pub status: String,
    /// The session it was run in.
    pub session_label: String,
    /// The host's id of the run.
    pub run_id: String,
    /// The number of its ancestors: 0 for a root.
    pub depth: i64,
    /// True when another turn follows it.
    pub has_children: bool,
    /// Unix milliseconds.
    pub started_at: i64,
    /// Unix milliseconds.
    pub completed_at: Option<i64>,
    /// The model.
    pub model: Option<String>,
    /// The provider.
    pub provider: Option<String>,
    /// The role of the agent.
    #[cfg_attr(feature = "testing", ts(type = "AgentRole"))]
    pub role: String,
    /// The sum over the turn's provider calls.
    pub usage: TokenUsage,
    /// US dollars; null where a price is unknown.
    pub cost: Option<f64>,
    /// The number of its tool calls.
    pub tool_call_count: i64,
    /// Why the agent stopped.
    #[cfg_attr(feature = "testing", ts(type = "StopReason | null"))]
    pub stop_reason: Option<String>,
    /// The host's own data; null where there is none.
    #[cfg_attr(feature = "testing", ts(type = "Record<string, unknown> | null"))]
    pub metadata: Option<Metadata>,
}

/// The filter of a list of turns.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurnFilter {
    /// Those that were run in a session.
    #[serde(default)]
    pub session_label: Option<String>,
    /// Those that ended so.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(type = "'completed' | 'aborted' | 'failed'", optional))]
    pub status: Option<EndedStatus>,
    /// Those of a provider.
    #[serde(default)]
    pub provider: Option<String>,
    /// Those of a model.
    #[serde(default)]
    pub model: Option<String>,
    /// Those that began at this time or later: Unix milliseconds.
    #[serde(default)]
    pub since: Option<i64>,
    /// Those that began before this time: Unix milliseconds.
    #[serde(default)]
    pub until: Option<i64>,
    /// Those whose metadata has these values, by key: at most 8.
    #[serde(default)]
    #[cfg_attr(
        feature = "testing",
        ts(type = "Readonly<Record<string, string | number | boolean>>", optional)
    )]
    pub metadata: Option<MetadataFilter>,
    /// The `next` of the previous page: a turn's id.
    #[serde(default)]
    pub after: Option<String>,
    /// The limit of turns: 1 to 1,000. Default 100.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<u32>"))]
    pub limit: Limit,
}

/// The status of a turn that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedStatus {
    /// It ended as the model or a limit ended it.
    Completed,
    /// It was aborted.
    Aborted,
    /// It failed.
    Failed,
}

impl EndedStatus {
    /// The value of the column.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
        }
    }
}

/// The filter of a list of tool calls.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolCallFilter {
    /// Those of a turn.
    #[serde(default)]
    pub turn_id: Option<String>,
    /// Those of the turns that were run in a session.
    #[serde(default)]
    pub session_label: Option<String>,
    /// Those of a tool.
    #[serde(default)]
    pub tool_name: Option<String>,
    /// Those with this status.
    #[serde(default)]
    pub status: Option<ToolCallStatus>,
    /// The `next` of the previous page: a call's `callId`.
    #[serde(default)]
    pub after: Option<String>,
    /// The limit of calls: 1 to 1,000. Default 100. A page also ends at 16 MiB of results.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<u32>"))]
    pub limit: Limit,
}

/// A tool call with its turn and session.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct ToolCallRow {
    /// The turn.
    pub turn_id: String,
    /// The session the turn was run in.
    pub session_label: String,
    /// The call.
    #[serde(flatten)]
    pub call: AgentToolCall,
}
