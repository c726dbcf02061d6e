//! What a run comes to: the broker interface's `AgentResult` with the ledger's and the wallet's view of it.
//!
//! It must never be half: every field is set for every stop reason.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{AgentError, AgentMessage, TokenUsage};

/// Why the agent stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The agent finished.
    EndTurn,
    /// The output cap was reached.
    MaxTokens,
    /// The iteration cap was reached while tools were asked for.
    ToolUse,
    /// `timeoutMs` passed.
    Timeout,
    /// Aborted.
    Aborted,
    /// Failed; see `error`.
    Error,
}

impl StopReason {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::ToolUse => "tool_use",
            Self::Timeout => "timeout",
            Self::Aborted => "aborted",
            Self::Error => "error",
        }
    }
}

/// Where a tool call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// Not begun.
    Pending,
    /// Begun.
    Running,
    /// Answered.
    Completed,
    /// Failed.
    Failed,
}

impl ToolCallStatus {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// The broker interface's `AgentToolCall`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct AgentToolCall {
    /// The provider's id of the call.
    pub id: String,
    /// The tool.
    pub tool_name: String,
    /// The arguments the tool got: parsed, coerced and valid; `{}` where they never were.
    #[cfg_attr(feature = "testing", ts(type = "Record<string, unknown>"))]
    pub params: Box<RawValue>,
    /// What the tool returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "testing", ts(type = "unknown"))]
    pub result: Option<Box<RawValue>>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Where it stands.
    pub status: ToolCallStatus,
    /// Unix milliseconds.
    pub started_at: i64,
    /// Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<i64>,
    /// Order within the turn, from 0.
    pub sequence: u32,
    /// The session of the subagent this call spawned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_session_label: Option<String>,
    /// The engine's ULID of the call: the tool's idempotency key and the ledger's id.
    #[serde(default)]
    pub call_id: String,
    /// The assistant message that asked.
    #[serde(default)]
    pub message_id: String,
}

/// What a call of a model is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum CallPurpose {
    /// The next answer of a run.
    #[default]
    Run,
    /// A summary, so that a conversation fits its window.
    Summary,
    /// The number of tokens of a prompt.
    Count,
}

impl CallPurpose {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Summary => "summary",
            Self::Count => "count",
        }
    }

    fn is_run(&self) -> bool {
        *self == Self::Run
    }
}

/// One attempt at a provider, as the result and the ledger's `attempts_json` have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// What the call was for; absent for an answer of the run.
    #[serde(default, skip_serializing_if = "CallPurpose::is_run")]
    #[cfg_attr(feature = "testing", ts(optional, as = "Option<CallPurpose>"))]
    pub purpose: CallPurpose,
    /// The provider asked.
    pub provider: String,
    /// The model asked.
    pub model: String,
    /// The auth profile used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<String>,
    /// True when a complete response came back.
    pub ok: bool,
    /// The HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The failure's kind; `refusal` also of a response that came whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<crate::FailureKind>,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// What it used; absent where nothing was reported and nothing came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// True where a part of `usage` is an estimate: nothing was reported, or a placeholder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "testing", ts(optional, as = "Option<bool>"))]
    pub usage_estimated: bool,
    /// What that cost in US dollars, where the price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// How long it was held back before, for its provider's rate limits; absent where it was not. Not part of `ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ms: Option<u64>,
}

/// Something the engine did otherwise than the context asked, without failing for it. Reported once a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct RunWarning {
    /// A stable code: `unsupported_option`, `unusable_image`, …
    pub code: String,
    /// The context's field, where it is about one: `temperature`, `metadata.team`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What was left out, and why.
    pub message: String,
}

impl RunWarning {
    /// An option that the API or the model has no place for: the request went out without it.
    #[must_use]
    pub fn unsupported(field: impl Into<String>, why: &str) -> Self {
        let field = field.into();
        Self {
            code: "unsupported_option".to_owned(),
            message: format!("`{field}` was left out: {why}"),
            field: Some(field),
        }
    }
}

/// The broker interface's `CompactionResult`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the broker interface names and explains these fields; none has a second meaning"
)]
pub struct CompactionResult {
    pub summary: String,
    pub summarized_through_turn_id: String,
    pub first_kept_turn_id: String,
    pub turns_summarized: u64,
    pub model: String,
    pub provider: String,
    pub tokens_before: u64,
    pub tokens_after: u64,
    pub summary_tokens: u64,
    pub summarization_input_tokens: u64,
    pub summarization_output_tokens: u64,
    pub duration_ms: u64,
    #[cfg_attr(feature = "testing", ts(type = "'context_limit' | 'overflow_recovery'"))]
    pub trigger: String,
    /// What made the room.
    #[serde(default = "CompactionResult::summary_type")]
    #[cfg_attr(
        feature = "testing",
        ts(type = "'summary' | 'sliding_window' | 'hard_clear' | 'tool_result_truncation'")
    )]
    pub compaction_type: String,
}

impl CompactionResult {
    fn summary_type() -> String {
        "summary".to_owned()
    }
}

/// The broker interface's `AgentResult`, with what the ledger and the wallet know of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct AgentResult {
    /// The turn's ULID; also without a ledger.
    pub turn_id: String,
    /// The host's id of the run.
    pub run_id: String,
    /// All messages in order: the query, assistant messages, tool results.
    pub messages: Vec<AgentMessage>,
    /// The blocks of the last assistant message, in order; empty where there is none.
    pub blocks: Vec<crate::Block>,
    /// All tool calls with their results.
    pub tool_calls: Vec<AgentToolCall>,
    /// The sum over all calls of the provider. Those of a compaction are in the compaction's own turn, where it has one.
    pub usage: TokenUsage,
    /// True when a call reported no usage, or a placeholder, and an estimate was counted in its place.
    pub usage_estimated: bool,
    /// The size of the context after the last call, in tokens; null while unknown. Never the sum.
    #[cfg_attr(feature = "testing", ts(type = "number | null", optional = false))]
    pub context_tokens: Option<u64>,
    /// US dollars of the calls in `usage`, by the catalogue's prices; null where a price is unknown, never 0 for it.
    #[cfg_attr(feature = "testing", ts(type = "number | null", optional = false))]
    pub cost: Option<f64>,
    /// Why the agent stopped.
    pub stop_reason: StopReason,
    /// Milliseconds from `run()` to the end.
    pub duration_ms: u64,
    /// Why the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<AgentError>,
    /// The compaction that was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<CompactionResult>,
    /// True when the ledger has the turn where it belongs; false without a ledger or with a `persistError`.
    pub persisted: bool,
    /// Why the ledger does not have it. With `stale_head` it does, beside the session's thread: another process had moved the
    /// session on meanwhile, and its pointer stayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persist_error: Option<PersistError>,
    /// Every attempt at a provider, those of summaries among them.
    pub attempts: Vec<Attempt>,
    /// Steered messages that no model call has seen, because the run ended first.
    #[serde(default)]
    pub undelivered_steering: Vec<String>,
    /// The budget as it was after the last call: what the model takes, what is reserved, and what the context uses. Absent
    /// where no call was about to be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<crate::TokenBudget>,
    /// What the context asked for and the requests could not contain; warnings of the guard and of a failed compaction.
    #[serde(default)]
    pub warnings: Vec<RunWarning>,
    /// Where the provider's prompt cache was of less use than it should have been.
    #[serde(default)]
    pub cache_breaks: Vec<crate::CacheBreak>,
}

/// Why the ledger does not have a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct PersistError {
    /// A stable code: `storage_full`, `stale_head`, …
    pub code: String,
    /// What failed and what to do.
    pub message: String,
}
