//! The result of a run: the broker interface's `AgentResult`, with what the ledger stored and what it cost.
//!
//! It must never be partial: every field is set for every stop reason.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{AgentError, AgentMessage, PLANNER, PlanRecord, TokenUsage};

/// Why the agent stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The agent finished.
    EndTurn,
    /// The output cap was reached.
    MaxTokens,
    /// The iteration cap was reached while tool calls were pending.
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

/// The status of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// Not begun.
    Pending,
    /// Begun.
    Running,
    /// Succeeded.
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
    /// The arguments that the tool received: parsed, coerced and valid; `{}` where they never became valid.
    #[cfg_attr(feature = "testing", ts(type = "Record<string, unknown>"))]
    pub params: Box<RawValue>,
    /// What the tool returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "testing", ts(type = "unknown"))]
    pub result: Option<Box<RawValue>>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its status.
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
    /// The assistant message with the call.
    #[serde(default)]
    pub message_id: String,
}

/// The purpose of a call of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum CallPurpose {
    /// The next answer of a run.
    #[default]
    Run,
    /// A summary for a compaction.
    Summary,
    /// A count of the tokens of a prompt.
    Count,
    /// A decision of a planner; no provider is called.
    Plan,
    /// Vectors of texts, for the memory.
    Embed,
    /// The facts of a turn, for the memory.
    Extract,
}

impl CallPurpose {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Summary => "summary",
            Self::Count => "count",
            Self::Plan => "plan",
            Self::Embed => "embed",
            Self::Extract => "extract",
        }
    }

    fn is_run(&self) -> bool {
        *self == Self::Run
    }
}

/// One attempt at a provider, as it is in the result and in the ledger's `attempts_json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// The purpose of the call; absent for an answer of the run.
    #[serde(default, skip_serializing_if = "CallPurpose::is_run")]
    #[cfg_attr(feature = "testing", ts(optional, as = "Option<CallPurpose>"))]
    pub purpose: CallPurpose,
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The auth profile used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<String>,
    /// True when a complete response was received.
    pub ok: bool,
    /// The HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The failure's kind; `refusal` also for a complete response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<crate::FailureKind>,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// Its usage; absent where nothing was reported and nothing was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// True where a part of `usage` is an estimate: nothing was reported, or a placeholder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "testing", ts(optional, as = "Option<bool>"))]
    pub usage_estimated: bool,
    /// Its cost in US dollars, where the price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// How long it waited for its provider's rate limits before it was sent; absent where it did not. Not part of `ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ms: Option<u64>,
    /// The decision, with the purpose `plan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "testing", ts(as = "Option<crate::PlanRecord>"))]
    pub plan: Option<Box<crate::PlanRecord>>,
}

impl Attempt {
    /// The record of a planner's decision, which took `ms`.
    #[must_use]
    pub fn of_plan(plan: PlanRecord, ms: u64) -> Self {
        Self {
            purpose: CallPurpose::Plan,
            provider: PLANNER.to_owned(),
            model: plan.planner.as_str().to_owned(),
            profile_id: None,
            ok: true,
            status: None,
            reason: None,
            ms,
            usage: None,
            usage_estimated: false,
            cost: None,
            held_ms: None,
            plan: Some(Box::new(plan)),
        }
    }

    /// The decisions among the attempts of a turn, in order.
    #[must_use]
    pub fn plans(attempts: &[Self]) -> Vec<PlanRecord> {
        attempts.iter().filter_map(|attempt| attempt.plan.as_deref().cloned()).collect()
    }
}

/// A setting of the context that the engine did not follow, without a failure. Reported once per run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct RunWarning {
    /// A stable code: `unsupported_option`, `unusable_image`, …
    pub code: String,
    /// The context's field, if it concerns one: `temperature`, `metadata.team`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What was left out, and why.
    pub message: String,
}

impl RunWarning {
    /// An option that the API or the model does not support: the request was sent without it.
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
    /// The strategy that was used.
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

/// The broker interface's `AgentResult`, with what the ledger stored and what it cost.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct AgentResult {
    /// The turn's ULID; also without a ledger.
    pub turn_id: String,
    /// The host's id of the run.
    pub run_id: String,
    /// The text of the last assistant message; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// All messages in order: the query, assistant messages, tool results.
    pub messages: Vec<AgentMessage>,
    /// The blocks of the last assistant message, in order; empty where there is none.
    pub blocks: Vec<crate::Block>,
    /// All tool calls with their results.
    pub tool_calls: Vec<AgentToolCall>,
    /// The sum over all provider calls. Those of a compaction are in the compaction's own turn, where it has one.
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
    /// The value of the answer, as the schema of `output` or `responseFormat` makes it; absent where the run requested none, or ended
    /// without an answer that fits. Not stored: the text is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "testing", ts(type = "unknown"))]
    pub output: Option<Box<RawValue>>,
    /// The reason of the abort, where one was given to the signal or to `abort()`: that very value. Only a run of this process has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "testing", ts(type = "unknown"))]
    pub abort_reason: Option<Box<RawValue>>,
    /// The compaction of this run, if one was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<CompactionResult>,
    /// True when the ledger has the turn in the session's thread; false without a ledger or with a `persistError`.
    pub persisted: bool,
    /// Why the ledger does not have it. With `stale_head` it has the turn beside the session's thread: another process had
    /// moved the session's pointer meanwhile, and the pointer was not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persist_error: Option<PersistError>,
    /// Every attempt at a provider, those of summaries included.
    pub attempts: Vec<Attempt>,
    /// Steered messages that no model call has seen, because the run ended first.
    #[serde(default)]
    pub undelivered_steering: Vec<String>,
    /// The token budget after the last call: the window, the reserves, and what the context uses. Absent where no call was
    /// prepared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<crate::TokenBudget>,
    /// Options of the context that the requests could not contain; warnings of the guard and of a failed compaction.
    #[serde(default)]
    pub warnings: Vec<RunWarning>,
    /// Breaks of the provider's prompt cache.
    #[serde(default)]
    pub cache_breaks: Vec<crate::CacheBreak>,
    /// The decisions of the run's planner, in order; absent where it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "testing", ts(optional, as = "Option<Vec<crate::PlanRecord>>"))]
    pub plans: Vec<crate::PlanRecord>,
    /// With `onApproval: 'return'`: the calls that wait for a decision. The turn has not ended; resume it after the decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "testing", ts(optional, as = "Option<Vec<crate::Approval>>"))]
    pub pending_approvals: Vec<crate::Approval>,
    /// The permissions that calls of the run needed; absent where none needed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "testing", ts(optional, type = "Permission[]"))]
    pub permissions_used: Option<Box<serde_json::value::RawValue>>,
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
