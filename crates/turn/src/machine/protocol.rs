//! What goes into the machine and what comes out of it: events, steps, calls to run, the outcome.
//!
//! It must never hold the state of a turn.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use model::{
    AgentError, AgentToolCall, Block, Failure, Message, Provenance, Stop, StopReason, TokenUsage,
};

/// What the machine needs of the world for one event.
pub struct Tick<'a> {
    /// Unix milliseconds.
    pub now_ms: i64,
    /// Makes a ULID.
    pub new_id: &'a mut dyn FnMut() -> String,
    /// Time left of the run.
    pub remaining: Duration,
}

/// A response, or what came of one before it was cut.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The id the assistant message was announced with.
    pub message_id: String,
    /// The blocks in order.
    pub blocks: Vec<Block>,
    /// Where they came from.
    pub provenance: Provenance,
    /// What the call cost; an estimate where `usage_estimated`.
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
}

/// How a tool call ended.
#[derive(Debug, Clone)]
pub struct ToolFinish {
    /// What the model reads.
    pub content: Vec<Block>,
    /// What the tool returned, for the result and the ledger.
    pub result: Option<Box<RawValue>>,
    /// Why it failed.
    pub error: Option<String>,
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// The model's response reached its protocol's end.
    Replied {
        /// The response.
        reply: Reply,
        /// Why it stopped.
        stop: Stop,
        /// The provider's word for it.
        stop_raw: String,
    },
    /// An attempt failed.
    AttemptFailed {
        /// Why.
        failure: Failure,
        /// What had come before it did.
        partial: Option<Reply>,
        /// Whether a token of it was emitted.
        emitted: bool,
        /// After how long another attempt is made; `None` ends the run. See [`crate::fallback`].
        again: Option<Duration>,
    },
    /// The wait is over.
    Waited,
    /// A tool's side effect is about to begin.
    ToolStarted {
        /// The engine's id of the call.
        call_id: String,
        /// The arguments it gets, as the result and the ledger store them.
        params: Option<Box<RawValue>>,
    },
    /// A tool call ended.
    ToolFinished {
        /// The engine's id of the call.
        call_id: String,
        /// How.
        finish: ToolFinish,
    },
    /// The user sent more meanwhile. Taken before a model call, or where the run would otherwise end.
    Steered(Vec<String>),
    /// The run ends now.
    Interrupted {
        /// Why.
        cause: Interrupt,
        /// What had come of a response.
        partial: Option<Reply>,
    },
    /// Something outside the loop failed before it could go on (the ledger could not be read).
    Broken(AgentError),
}

/// A call the driver should run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    /// The engine's ULID: the idempotency key.
    pub call_id: String,
    /// The assistant message that asked.
    pub message_id: String,
    /// The provider's id.
    pub provider_call_id: String,
    /// The tool.
    pub tool_name: String,
    /// The arguments as the provider sent them.
    pub arguments_json: String,
    /// True where the call may have had its effect before a crash: its tool is asked first.
    pub reconcile: bool,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ask the model with all messages so far.
    CallModel,
    /// Run these, in call order.
    RunTools(Vec<PendingCall>),
    /// Calls are still out.
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

/// A call as it stands, for the recorder.
#[derive(Debug, Clone, Copy)]
pub struct CallState<'a> {
    /// The call.
    pub row: &'a AgentToolCall,
    /// Its answer, where it has one; among [`super::Machine::messages`] once its whole batch is answered.
    pub answer: Option<&'a Message>,
}
