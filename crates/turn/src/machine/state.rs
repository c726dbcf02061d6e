//! The state of one turn: its messages, its calls, its counters, and accessors.
//!
//! It must never decide the next step.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::protocol::{CallState, Outcome};
use model::{
    AgentError, AgentToolCall, Message, Progress, Role, StopReason, TokenUsage, ToolCallStatus,
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum State {
    Ready,
    Waiting(Duration),
    Tools,
    Finished(Outcome),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Call {
    pub(super) row: AgentToolCall,
    pub(super) arguments_json: String,
    /// Whether its side effect has started, however it ended.
    pub(super) executed: bool,
    /// The tool must be reconciled before it may run again.
    #[serde(default)]
    pub(super) reconcile: bool,
    /// The message the model reads, with its position in the turn; `None` while the call is open.
    pub(super) answer: Option<Box<Message>>,
}

impl Call {
    pub(super) fn new(row: AgentToolCall, arguments_json: String) -> Self {
        Self { row, arguments_json, executed: false, reconcile: false, answer: None }
    }
}

/// The state of one turn. Serialisable, so that a turn can be resumed elsewhere.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    pub(super) max_iterations: u32,
    pub(super) iterations: u32,
    pub(super) continuations: u32,
    /// Whether the current answer was already requested again because of a malformed tool call.
    #[serde(default)]
    pub(super) requested_again: bool,
    pub(super) messages: Vec<Message>,
    pub(super) calls: Vec<Call>,
    /// The index of the first call of the last assistant message.
    pub(super) batch: usize,
    pub(super) state: State,
    /// An interrupt arrived after the answer was whole: the outcome is final, and the run does not continue.
    pub(super) sealed: bool,
    pub(super) usage: TokenUsage,
    pub(super) usage_estimated: bool,
    pub(super) context_tokens: Option<u64>,
}

impl Machine {
    /// A turn that begins with `queries`, one after the other.
    #[must_use]
    pub fn with_queries(queries: Vec<Message>, max_iterations: u32) -> Self {
        let mut machine =
            Self { messages: Vec::with_capacity(queries.len()), ..Self::empty(max_iterations) };
        queries.into_iter().for_each(|query| machine.push(query));
        machine
    }

    /// A turn that begins with `query`.
    #[must_use]
    pub fn new(query: Message, max_iterations: u32) -> Self {
        Self { messages: vec![query], ..Self::empty(max_iterations) }
    }

    fn empty(max_iterations: u32) -> Self {
        Self {
            max_iterations,
            iterations: 0,
            continuations: 0,
            requested_again: false,
            messages: Vec::new(),
            calls: Vec::new(),
            batch: 0,
            state: State::Ready,
            sealed: false,
            usage: TokenUsage::default(),
            usage_estimated: false,
            context_tokens: None,
        }
    }

    /// The turn's messages so far.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The outcome of the run, once it has ended.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            State::Finished(outcome) => Some(outcome),
            State::Ready | State::Waiting(_) | State::Tools => None,
        }
    }

    /// Whether a tool's side effect has started and its result is still missing.
    #[must_use]
    pub fn is_running(&self, call_id: &str) -> bool {
        self.calls
            .iter()
            .any(|call| call.row.call_id == call_id && call.row.status == ToolCallStatus::Running)
    }

    /// The sum over the calls, whether some of it is estimated, and the context's size after the last call.
    #[must_use]
    pub fn usage(&self) -> (TokenUsage, bool, Option<u64>) {
        (self.usage, self.usage_estimated, self.context_tokens)
    }

    /// Whether the session's pointer moves to this turn (docs/rules/turns-and-streams.md#session-pointer).
    #[must_use]
    pub fn moves_pointer(&self) -> bool {
        match self.outcome().map(|outcome| outcome.stop_reason) {
            Some(
                StopReason::EndTurn
                | StopReason::MaxTokens
                | StopReason::ToolUse
                | StopReason::Aborted,
            ) => true,
            Some(StopReason::Error | StopReason::Timeout) => {
                self.messages
                    .iter()
                    .any(|message| message.role == Role::Assistant && !message.content().is_empty())
                    || self.calls.iter().any(|call| call.executed)
            }
            None => false,
        }
    }

    /// The turn's calls so far.
    pub fn calls(&self) -> impl Iterator<Item = CallState<'_>> {
        self.calls.iter().map(|call| CallState { row: &call.row, answer: call.answer.as_deref() })
    }

    /// The counters of the machine, for the recorder. Unknown ones are left empty.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            iterations: self.iterations,
            continuations: self.continuations,
            usage: self.usage,
            usage_estimated: self.usage_estimated,
            context_tokens: self.context_tokens,
            cost: None,
            attempts: Vec::new(),
        }
    }

    /// The messages and the tool calls, at the end.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Message>, Vec<AgentToolCall>) {
        (self.messages, self.calls.into_iter().map(|call| call.row).collect())
    }

    pub(super) fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished(_))
    }

    pub(super) fn finish(&mut self, stop_reason: StopReason, error: Option<AgentError>) {
        self.state = State::Finished(Outcome { stop_reason, error });
    }

    pub(super) fn open_batch(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().skip(self.batch)
    }

    pub(super) fn push(&mut self, mut message: Message) {
        message.sequence = u32::try_from(self.messages.len()).unwrap_or(u32::MAX);
        self.messages.push(message);
    }
}
