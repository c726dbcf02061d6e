//! The events of a run while it runs: the broker interface's six StreamEvents, each with `seq`, and the phases of `onAgentEvent`.
//!
//! Order and multiplicity are in docs/rules/turns-and-streams.md#stream-start; this file only defines the shapes.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{CacheBreak, CallPurpose, FailureKind, ModelName};

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
        /// One line about the outcome, at most 200 characters.
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
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
    /// The run continues with another model because the previous one failed. Only before any token of a message was delivered.
    ModelSwitch {
        /// The model that failed.
        from: ModelName,
        /// The model that is called now.
        to: ModelName,
        /// Why.
        reason: FailureKind,
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
        /// The assistant message that ended; absent where the run has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// The event's number.
        seq: u64,
    },
    /// The run failed; emitted instead of the final `stream_end`.
    StreamError {
        /// The error's message.
        error: String,
        /// Whether any token of this run was delivered.
        partial: bool,
        /// The event's number.
        seq: u64,
    },
}

impl StreamEvent {
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
            | Self::StreamError { seq, .. } => *seq = number,
        }
        self
    }
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
