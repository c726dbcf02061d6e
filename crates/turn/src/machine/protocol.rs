//! The input and output of the machine: events, steps, calls to run, the outcome.
//!
//! It must never hold the state of a turn.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use model::{
    AgentError, AgentToolCall, Block, Failure, Message, Provenance, Stop, StopReason, TokenUsage,
};

/// The time and the ids that the machine needs for one event.
pub struct Tick<'a> {
    /// Unix milliseconds.
    pub now_ms: i64,
    /// Creates a ULID.
    pub new_id: &'a mut dyn FnMut() -> String,
    /// Time left of the run.
    pub remaining: Duration,
}

/// A response, whole or cut.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The id of the assistant message, as it was announced.
    pub message_id: String,
    /// The blocks in order.
    pub blocks: Vec<Block>,
    /// Their provenance.
    pub provenance: Provenance,
    /// The usage of the call; an estimate where `usage_estimated`.
    pub usage: TokenUsage,
    /// True when the provider did not report usage.
    pub usage_estimated: bool,
}

/// Why a run ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// `abort()`, an AbortSignal, or a reader that left.
    Abort,
    /// `timeoutMs` passed.
    Timeout,
    /// The AbortSignal is one of a time limit, which has passed.
    Expired,
}

/// How a tool call ended.
#[derive(Debug, Clone)]
pub struct ToolFinish {
    /// What the model reads.
    pub content: Vec<Block>,
    /// The tool's return value, for the result and the ledger.
    pub result: Option<Box<RawValue>>,
    /// Why it failed.
    pub error: Option<String>,
    /// The session of the agent that it has started.
    pub spawned_session_label: Option<String>,
}

/// An input of the machine.
#[derive(Debug)]
pub enum Event {
    /// The model's response reached its protocol's end.
    Replied {
        /// The response.
        reply: Reply,
        /// Why it stopped.
        stop: Stop,
        /// The provider's name of the reason.
        stop_raw: String,
    },
    /// An attempt failed.
    AttemptFailed {
        /// Why.
        failure: Failure,
        /// The content received before it failed.
        partial: Option<Reply>,
        /// Whether a token of it was emitted.
        emitted: bool,
        /// The delay before another attempt; `None` ends the run. See [`crate::fallback`].
        again: Option<Duration>,
    },
    /// The wait is over.
    Waited,
    /// A tool's side effect is about to start.
    ToolStarted {
        /// The engine's id of the call.
        call_id: String,
        /// The arguments it receives, as the result and the ledger store them.
        params: Option<Box<RawValue>>,
    },
    /// A tool call ended.
    ToolFinished {
        /// The engine's id of the call.
        call_id: String,
        /// How.
        finish: ToolFinish,
    },
    /// User messages that arrived meanwhile, by their blocks. Accepted before a model call, or where the run would otherwise end.
    Steered(Vec<Vec<Block>>),
    /// The run ends now.
    Interrupted {
        /// Why.
        cause: Interrupt,
        /// The part of a response received so far.
        partial: Option<Reply>,
    },
    /// A planner decided instead of the model: its calls run, or its text is the answer. Accepted only before a model call.
    Planned(Reply),
    /// The host ends the run before its next call of the model. Accepted only there.
    Stopped,
    /// The answer that ended the run is not the output that was asked for: it failed. Accepted only after that answer.
    OutputInvalid(AgentError),
    /// The run ended before that was known. Accepted only after that answer.
    OutputUnchecked(Interrupt),
    /// Something outside the loop failed (the ledger could not be read).
    Broken(AgentError),
}

/// A tool call for the driver to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    /// The engine's ULID: the idempotency key.
    pub call_id: String,
    /// The assistant message with the call.
    pub message_id: String,
    /// The provider's id.
    pub provider_call_id: String,
    /// The tool.
    pub tool_name: String,
    /// The arguments as the provider sent them.
    pub arguments_json: String,
    /// True where the call may have had its effect before a crash: the tool is reconciled first.
    pub reconcile: bool,
}

/// The next step of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Call the model with all messages so far.
    CallModel,
    /// Run these, in call order.
    RunTools(Vec<PendingCall>),
    /// Wait for running calls.
    AwaitTools,
    /// Wait, then feed [`Event::Waited`].
    Wait(Duration),
    /// The run is over; see [`super::Machine::outcome`].
    Done,
}

/// How the run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Why the agent stopped.
    pub stop_reason: StopReason,
    /// Why the run failed.
    pub error: Option<AgentError>,
}

/// The state of a call, for the recorder.
#[derive(Debug, Clone, Copy)]
pub struct CallState<'a> {
    /// The call.
    pub row: &'a AgentToolCall,
    /// Its result, where it has one; part of [`super::Machine::messages`] once its whole batch is done.
    pub answer: Option<&'a Message>,
}
