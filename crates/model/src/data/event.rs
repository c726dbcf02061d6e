//! The events of a run while it runs: the broker interface's six StreamEvents, each with `seq`, those that a user interface
//! needs besides, and the phases of `onAgentEvent`.
//!
//! Order and multiplicity are in docs/rules/turns-and-streams.md#stream-start; this file only defines the shapes.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    AgentErrorKind, Approval, ApprovalKind, ApprovalStatus, CacheBreak, CallPurpose, FailureKind,
    ModelName, StopReason, TokenUsage,
};

/// One event of a run's stream. `seq` counts from 1 without a gap.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum StreamEvent {
    /// Once per run, before any provider call.
    StreamStart {
        /// The host's id of the run.
        run_id: String,
        /// The session the run belongs to.
        session_label: String,
        /// The `target` of the context, or null.
        #[cfg_attr(feature = "testing", ts(type = "DeliveryTarget"))]
        target: Option<Box<RawValue>>,
        /// The event's number.
        seq: u64,
    },
    /// A delta of visible text.
    Token {
        /// The text.
        text: String,
        /// The assistant message it belongs to.
        message_id: String,
        /// The event's number; the last one where deltas were merged.
        seq: u64,
        /// The first number, where deltas were merged (a reader more than 4,096 events behind).
        #[serde(skip_serializing_if = "Option::is_none")]
        seq_from: Option<u64>,
    },
    /// A tool began or ended.
    ToolStatus {
        /// The tool.
        tool_name: String,
        /// The provider's id of the call.
        tool_call_id: String,
        /// What happened.
        status: ToolStatus,
        /// The engine's id of the call: that of `toolCalls` and of the ledger.
        call_id: String,
        /// One line about the outcome, at most 200 characters.
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// How long the tool ran, in milliseconds; absent where it did not start.
        #[serde(skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
        /// Where it started: the arguments that the tool receives.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "testing", ts(optional, type = "Record<string, unknown>"))]
        params: Option<Box<RawValue>>,
        /// Where it ended: what the tool returned.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "testing", ts(optional, type = "unknown"))]
        result: Option<Box<RawValue>>,
        /// Where it ended: whether it failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
        /// The assistant message with the call.
        message_id: String,
        /// The event's number.
        seq: u64,
    },
    /// What a running tool passed to its `onUpdate`. Live only: it is not stored, and other processes do not receive it.
    ToolProgress {
        /// The tool.
        tool_name: String,
        /// The provider's id of the call.
        tool_call_id: String,
        /// The engine's id of the call.
        call_id: String,
        /// The update.
        #[cfg_attr(feature = "testing", ts(type = "unknown"))]
        partial: Box<RawValue>,
        /// The number of the last event before it that is stored.
        seq: u64,
        /// Its own number after that event, from 1.
        sub: u32,
    },
    /// A piece of a call's arguments, as the provider sent it. Only where `events` has `toolInput: true`; live only.
    ToolInputDelta {
        /// The provider's id of the call, where it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<String>,
        /// The tool, where it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_name: Option<String>,
        /// The piece: a part of the JSON text.
        delta: String,
        /// The position of the call's block in its message.
        index: u32,
        /// The assistant message with the call.
        message_id: String,
        /// The number of the last event before it that is stored.
        seq: u64,
        /// Its own number after that event, from 1.
        sub: u32,
    },
    /// A call of a model has ended, and what it used.
    Usage {
        /// What the call was for: the run's next answer, or a summary.
        purpose: CallPurpose,
        /// The number of the call among the run's attempts, from 1.
        attempt: u32,
        /// The provider.
        provider: String,
        /// The model.
        model: String,
        /// The assistant message that it answered with; absent for a summary and a call that failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// Its tokens.
        usage: TokenUsage,
        /// True where some of them are estimated.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        #[cfg_attr(feature = "testing", ts(optional, as = "Option<bool>"))]
        usage_estimated: bool,
        /// US dollars; absent where the price is unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        /// The event's number.
        seq: u64,
    },
    /// A call of a model failed, and another one follows: with `waiting` before it if it is delayed.
    Retry {
        /// Why it failed.
        reason: FailureKind,
        /// The number of the failed call among the run's attempts, from 1; the number of those before, if it was not sent.
        attempt: u32,
        /// The provider that failed.
        provider: String,
        /// The model that failed.
        model: String,
        /// The auth profile that failed; absent where the server needs none.
        #[serde(skip_serializing_if = "Option::is_none")]
        profile_id: Option<String>,
        /// The delay before the next call, in milliseconds.
        ms: u64,
        /// The event's number.
        seq: u64,
    },
    /// A compaction of the run's context began or ended.
    Compaction {
        /// Which.
        phase: CompactionPhase,
        /// Why: the context was near its limit, or the provider refused it.
        trigger: CompactionTrigger,
        /// The estimated tokens of the context before it.
        tokens_before: u64,
        /// Where it ended: those after it; unchanged where nothing was compacted.
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens_after: Option<u64>,
        /// The event's number.
        seq: u64,
    },
    /// A steered message has entered the conversation.
    UserMessage {
        /// The message's id in the ledger.
        message_id: String,
        /// Its text.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "testing", ts(type = "string"))]
        text: Option<String>,
        /// The event's number.
        seq: u64,
    },
    /// A tool call waits for a decision, or has one.
    Approval {
        /// Which.
        phase: ApprovalPhase,
        /// The id of the approval: the argument of `approve` and `deny`.
        approval_id: String,
        /// What the call waits for.
        kind: ApprovalKind,
        /// What became of it.
        status: ApprovalStatus,
        /// The tool.
        tool_name: String,
        /// The engine's id of the call.
        call_id: String,
        /// The provider's id of the call.
        tool_call_id: String,
        /// The arguments that the decision is about; once approved with others, those.
        #[cfg_attr(feature = "testing", ts(type = "Record<string, unknown>"))]
        params: Box<RawValue>,
        /// Why `beforeToolCall` requested a decision.
        #[serde(skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        /// When it expires, in Unix milliseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<i64>,
        /// Who decided.
        #[serde(skip_serializing_if = "Option::is_none")]
        decided_by: Option<String>,
        /// Why it was denied.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The assistant message with the call.
        message_id: String,
        /// The event's number.
        seq: u64,
    },
    /// A delta of shown reasoning.
    Reasoning {
        /// The text.
        text: String,
        /// The assistant message it belongs to.
        message_id: String,
        /// The event's number; the last one where deltas were merged.
        seq: u64,
        /// The first number, where deltas were merged.
        #[serde(skip_serializing_if = "Option::is_none")]
        seq_from: Option<u64>,
    },
    /// The run continues with another model, because the previous one failed or `prepareStep` chose it. Only before any token of a
    /// message was delivered.
    ModelSwitch {
        /// The model that failed.
        from: ModelName,
        /// The model that is called now.
        to: ModelName,
        /// Why the previous one failed; absent where `prepareStep` chose the model.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<FailureKind>,
        /// The event's number.
        seq: u64,
    },
    /// The next request waits: for a retry, for a profile that cools down, or for a rate limit.
    Waiting {
        /// Why.
        reason: FailureKind,
        /// What the request is for: the run's next answer, or a summary.
        purpose: CallPurpose,
        /// The number of the attempt that follows, from 1.
        attempt: u32,
        /// The provider.
        provider: String,
        /// The model.
        model: String,
        /// The auth profile that cools down; absent where the server needs none.
        #[serde(skip_serializing_if = "Option::is_none")]
        profile_id: Option<String>,
        /// When the wait ends, in Unix milliseconds; absent where that is unknown (other calls are sent first).
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<i64>,
        /// How long the wait takes, in milliseconds; absent where that is unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
        /// The event's number.
        seq: u64,
    },
    /// The provider's prompt cache was read less than expected: emitted after the answer that showed it.
    CacheBreak {
        /// The cause and the cost.
        cache_break: Box<CacheBreak>,
        /// The event's number.
        seq: u64,
    },
    /// An assistant message ended; with `final` true, the run.
    StreamEnd {
        /// The host's id of the run.
        run_id: String,
        /// True exactly once, after the commit.
        r#final: bool,
        /// True: the run has ended with `onApproval: 'return'`, and its turn continues after a decision.
        #[serde(skip_serializing_if = "Option::is_none")]
        parked: Option<bool>,
        /// The assistant message that ended; absent where the run has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// With `final`: why the agent stopped.
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<StopReason>,
        /// With `final`: the turn.
        #[serde(skip_serializing_if = "Option::is_none")]
        turn_id: Option<String>,
        /// With `final`: the tokens of the run.
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<TokenUsage>,
        /// With `final`: US dollars; absent where a price is unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        /// With `final`: whether the session continues from the turn in the ledger, as in the result.
        #[serde(skip_serializing_if = "Option::is_none")]
        persisted: Option<bool>,
        /// The event's number.
        seq: u64,
    },
    /// The run failed; emitted instead of the final `stream_end`.
    StreamError {
        /// The error's message.
        error: String,
        /// Whether any token of this run was delivered.
        partial: bool,
        /// After how many milliseconds the message may be sent again, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
        /// Why the agent stopped: `error` or `timeout`.
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<StopReason>,
        /// The turn.
        #[serde(skip_serializing_if = "Option::is_none")]
        turn_id: Option<String>,
        /// The tokens of the run.
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<TokenUsage>,
        /// US dollars; absent where a price is unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        /// Whether the session continues from the turn in the ledger, as in the result.
        #[serde(skip_serializing_if = "Option::is_none")]
        persisted: Option<bool>,
        /// The kind of the error.
        #[serde(skip_serializing_if = "Option::is_none")]
        kind: Option<AgentErrorKind>,
        /// Whether the same message may succeed later.
        #[serde(skip_serializing_if = "Option::is_none")]
        retryable: Option<bool>,
        /// The event's number.
        seq: u64,
    },
}

impl StreamEvent {
    /// The event that reports the state of an approval.
    #[must_use]
    pub fn approval(phase: ApprovalPhase, of: &Approval) -> Self {
        Self::Approval {
            phase,
            approval_id: of.id.clone(),
            kind: of.kind,
            status: of.status,
            tool_name: of.tool_name.clone(),
            call_id: of.call_id.clone(),
            tool_call_id: of.tool_call_id.clone(),
            params: of.params.clone(),
            question: of.question.clone(),
            expires_at: of.expires_at,
            decided_by: of.decided_by.clone(),
            reason: of.reason.clone(),
            message_id: of.message_id.clone(),
            seq: 0,
        }
    }

    /// A `stream_error` without the outcome of its turn.
    #[must_use]
    pub fn error(error: String, partial: bool) -> Self {
        Self::StreamError {
            error,
            partial,
            retry_after_ms: None,
            stop_reason: None,
            turn_id: None,
            usage: None,
            cost: None,
            persisted: None,
            kind: None,
            retryable: None,
            seq: 0,
        }
    }

    /// The `stream_end` of an answer with which the turn continues.
    #[must_use]
    pub fn answer_end(run_id: String, message_id: Option<String>) -> Self {
        Self::StreamEnd {
            run_id,
            r#final: false,
            parked: None,
            message_id,
            stop_reason: None,
            turn_id: None,
            usage: None,
            cost: None,
            persisted: None,
            seq: 0,
        }
    }

    /// The `stream_end` of a run that ends while its turn waits for a decision.
    #[must_use]
    pub fn parked_end(run_id: String, message_id: Option<String>) -> Self {
        let mut end = Self::answer_end(run_id, message_id);
        if let Self::StreamEnd { parked, .. } = &mut end {
            *parked = Some(true);
        }
        end
    }

    /// The event with another number.
    #[must_use]
    pub fn numbered(mut self, number: u64) -> Self {
        match &mut self {
            Self::StreamStart { seq, .. }
            | Self::Token { seq, .. }
            | Self::ToolStatus { seq, .. }
            | Self::Reasoning { seq, .. }
            | Self::StreamEnd { seq, .. }
            | Self::ModelSwitch { seq, .. }
            | Self::Waiting { seq, .. }
            | Self::CacheBreak { seq, .. }
            | Self::ToolProgress { seq, .. }
            | Self::ToolInputDelta { seq, .. }
            | Self::Usage { seq, .. }
            | Self::Retry { seq, .. }
            | Self::Compaction { seq, .. }
            | Self::UserMessage { seq, .. }
            | Self::Approval { seq, .. }
            | Self::StreamError { seq, .. } => *seq = number,
        }
        self
    }

    /// The terminal event with whether the session continues from its turn.
    #[must_use]
    pub fn persisted(mut self, whether: bool) -> Self {
        if let Self::StreamEnd { persisted, .. } | Self::StreamError { persisted, .. } = &mut self {
            *persisted = Some(whether);
        }
        self
    }

    /// The group that a reader selects it by.
    #[must_use]
    pub fn group(&self) -> EventGroup {
        match self {
            Self::StreamStart { .. }
            | Self::Token { .. }
            | Self::ToolStatus { .. }
            | Self::Reasoning { .. }
            | Self::StreamEnd { .. }
            | Self::StreamError { .. } => EventGroup::Core,
            Self::Usage { .. } => EventGroup::Usage,
            Self::Waiting { .. } | Self::Retry { .. } => EventGroup::Waiting,
            Self::Compaction { .. } => EventGroup::Compaction,
            Self::UserMessage { .. } => EventGroup::UserMessage,
            Self::ToolProgress { .. } => EventGroup::ToolProgress,
            Self::ModelSwitch { .. } => EventGroup::ModelSwitch,
            Self::CacheBreak { .. } => EventGroup::CacheBreak,
            Self::ToolInputDelta { .. } => EventGroup::ToolInput,
            Self::Approval { .. } => EventGroup::Approval,
        }
    }
}

/// What a reader selects events by. The numbers are bits, and part of the JavaScript boundary (`lib/run/event-groups.ts`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum EventGroup {
    /// The six of the broker interface, which every reader receives.
    Core = 0,
    /// `usage`.
    Usage = 1,
    /// `waiting` and `retry`.
    Waiting = 2,
    /// `compaction`.
    Compaction = 4,
    /// `user_message`.
    UserMessage = 8,
    /// `tool_progress`.
    ToolProgress = 16,
    /// `model_switch`.
    ModelSwitch = 32,
    /// `cache_break`.
    CacheBreak = 64,
    /// `tool_input_delta`, off unless it is selected.
    ToolInput = 128,
    /// `approval`.
    Approval = 256,
}

impl EventGroup {
    /// The group of the events with this `type`.
    #[must_use]
    pub fn of_type(name: &str) -> Self {
        match name {
            "usage" => Self::Usage,
            "waiting" | "retry" => Self::Waiting,
            "compaction" => Self::Compaction,
            "user_message" => Self::UserMessage,
            "tool_progress" => Self::ToolProgress,
            "model_switch" => Self::ModelSwitch,
            "cache_break" => Self::CacheBreak,
            "tool_input_delta" => Self::ToolInput,
            "approval" => Self::Approval,
            _ => Self::Core,
        }
    }
}

/// Which end of an approval an event reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPhase {
    /// The call waits.
    Requested,
    /// It waits no longer.
    Decided,
}

/// Which end of a compaction an event reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum CompactionPhase {
    /// It began.
    Start,
    /// It ended, whether or not it compacted anything.
    End,
}

/// Why a running turn is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum CompactionTrigger {
    /// The context was near its limit.
    ContextLimit,
    /// The provider refused the prompt as too long.
    Overflow,
}

/// What happened to a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// The side effect is about to begin.
    Started,
    /// It returned.
    Completed,
    /// It failed; the model reads the reason.
    Failed,
}

/// The phases of `onAgentEvent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum AgentPhase {
    /// The run began.
    Start,
    /// The first token of an assistant message.
    Streaming,
    /// Tools are about to run.
    ToolUse,
    /// A compaction began.
    CompactionStart,
    /// A compaction ended.
    CompactionEnd,
    /// The run ended.
    End,
}
