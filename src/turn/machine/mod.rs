//! The loop of one turn as a sans-IO machine: events in, the next step out (DESIGN §4).
//!
//! It owns the turn's messages and tool calls, and that every call is answered exactly once. It must never await, read a
//! clock or make an id: the driver does, and feeds back what happened.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::retry;
use crate::model::{
    AgentError, AgentErrorKind, AgentToolCall, Block, ErrorDetail, Failure, FailureKind, Message,
    Provenance, Role, Stop, StopReason, TokenUsage, ToolCallStatus,
};

/// `pause_turn` is continued this often (RULES §1, WIRE §8).
const MAX_CONTINUATIONS: u32 = 8;

/// What the machine needs of the world for one event.
pub struct Tick<'a> {
    /// Unix milliseconds.
    pub now_ms: i64,
    /// Makes a ULID.
    pub new_id: &'a mut dyn FnMut() -> String,
    /// Time left of the run.
    pub remaining: Duration,
    /// A number in 0..1.
    pub dice: f64,
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
    },
    /// The wait is over.
    Waited,
    /// A tool's side effect is about to begin.
    ToolStarted {
        /// The engine's id of the call.
        call_id: String,
        /// The arguments it gets, as the result and the ledger keep them.
        params: Option<Box<RawValue>>,
    },
    /// A tool call ended.
    ToolFinished {
        /// The engine's id of the call.
        call_id: String,
        /// How.
        finish: ToolFinish,
    },
    /// The person said more meanwhile. Taken before a model call, or where the run would otherwise end.
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
    /// The run is over; see [`Machine::outcome`].
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    Ready,
    Waiting(Duration),
    Tools,
    Finished(Outcome),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Call {
    row: AgentToolCall,
    arguments_json: String,
    /// Whether its side effect has begun, however it ended.
    executed: bool,
    /// What the model reads; `None` while the call is open.
    answer: Option<Vec<Block>>,
}

/// The state of one turn. Serialisable, so that a turn can be resumed elsewhere.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    max_iterations: u32,
    iterations: u32,
    continuations: u32,
    failures: u32,
    messages: Vec<Message>,
    calls: Vec<Call>,
    /// Where the calls of the last assistant message begin.
    batch: usize,
    state: State,
    /// An interrupt came after the answer was whole: the outcome stands, and nothing goes on from it.
    sealed: bool,
    usage: TokenUsage,
    usage_estimated: bool,
    context_tokens: Option<u64>,
}

impl Machine {
    /// A turn that begins with `query`.
    #[must_use]
    pub fn new(query: Message, max_iterations: u32) -> Self {
        Self {
            max_iterations,
            iterations: 0,
            continuations: 0,
            failures: 0,
            messages: vec![query],
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

    /// How the run ended, once it has.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            State::Finished(outcome) => Some(outcome),
            State::Ready | State::Waiting(_) | State::Tools => None,
        }
    }

    /// Whether a tool's side effect has begun and its answer is still out.
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

    /// Whether the session's pointer moves to this turn (RULES §1, "Pointer movement").
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

    /// The messages and the tool calls, at the end.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Message>, Vec<AgentToolCall>) {
        (self.messages, self.calls.into_iter().map(|call| call.row).collect())
    }

    /// Takes an event and says what to do next. Events that come too late (a tool that answers after an abort) change
    /// nothing.
    pub fn feed(&mut self, event: Event, tick: &mut Tick<'_>) -> Step {
        match event {
            Event::Replied { reply, stop, stop_raw } => self.replied(reply, stop, stop_raw, tick),
            Event::AttemptFailed { failure, partial, emitted } => {
                self.attempt_failed(&failure, partial, emitted, tick);
            }
            Event::Waited => {
                if matches!(self.state, State::Waiting(_)) {
                    self.state = State::Ready;
                }
            }
            Event::ToolStarted { call_id, params } => self.tool_started(&call_id, params, tick),
            Event::ToolFinished { call_id, finish } => self.tool_finished(&call_id, finish, tick),
            Event::Steered(texts) => self.steered(texts, tick),
            Event::Interrupted { cause, partial } => self.interrupted(cause, partial, tick),
            Event::Broken(error) => {
                if !self.is_finished() {
                    self.close_calls("interrupted", tick);
                    self.finish(StopReason::Error, Some(error));
                }
            }
        }
        self.step()
    }

    /// What to do next.
    #[must_use]
    pub fn step(&self) -> Step {
        match &self.state {
            State::Ready => Step::CallModel,
            State::Waiting(delay) => Step::Wait(*delay),
            State::Tools => {
                let pending: Vec<PendingCall> = self
                    .open_batch()
                    .filter(|call| {
                        call.answer.is_none() && call.row.status == ToolCallStatus::Pending
                    })
                    .map(|call| PendingCall {
                        call_id: call.row.call_id.clone(),
                        message_id: call.row.message_id.clone(),
                        provider_call_id: call.row.id.clone(),
                        tool_name: call.row.tool_name.clone(),
                        arguments_json: call.arguments_json.clone(),
                    })
                    .collect();
                if pending.is_empty() { Step::AwaitTools } else { Step::RunTools(pending) }
            }
            State::Finished(_) => Step::Done,
        }
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished(_))
    }

    fn finish(&mut self, stop_reason: StopReason, error: Option<AgentError>) {
        self.state = State::Finished(Outcome { stop_reason, error });
    }

    fn open_batch(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().skip(self.batch)
    }

    fn push(&mut self, mut message: Message) {
        message.sequence = u32::try_from(self.messages.len()).unwrap_or(u32::MAX);
        self.messages.push(message);
    }

    fn count(&mut self, reply: &Reply) {
        self.usage = self.usage.plus(reply.usage);
        self.usage_estimated |= reply.usage_estimated;
    }

    fn push_reply(&mut self, mut reply: Reply, stop_raw: Option<String>, tick: &mut Tick<'_>) {
        if reply.blocks.is_empty() {
            return;
        }
        self.batch = self.calls.len();
        for block in &mut reply.blocks {
            // Some servers give a call no id; without one its result could not be told to belong to it.
            if let Block::ToolCall { id, .. } = block
                && id.is_empty()
            {
                *id = format!("call_{}", (tick.new_id)());
            }
        }
        for block in &reply.blocks {
            if let Block::ToolCall { id, name, arguments_json, .. } = block {
                let sequence = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
                self.calls.push(Call {
                    row: AgentToolCall {
                        id: id.clone(),
                        tool_name: name.clone(),
                        params: empty_object(),
                        result: None,
                        error: None,
                        status: ToolCallStatus::Pending,
                        started_at: tick.now_ms,
                        completed_at: None,
                        sequence,
                        spawned_session_label: None,
                        call_id: (tick.new_id)(),
                        message_id: reply.message_id.clone(),
                    },
                    arguments_json: arguments_json.clone(),
                    executed: false,
                    answer: None,
                });
            }
        }
        self.push(Message {
            id: reply.message_id,
            role: Role::Assistant,
            blocks: reply.blocks,
            sequence: 0,
            created_at: tick.now_ms,
            provenance: Some(reply.provenance),
            provider_stop_reason: stop_raw,
        });
    }

    fn replied(&mut self, reply: Reply, stop: Stop, stop_raw: String, tick: &mut Tick<'_>) {
        if self.is_finished() {
            return;
        }
        self.failures = 0;
        self.iterations = self.iterations.saturating_add(1);
        self.count(&reply);
        self.context_tokens = Some(reply.usage.total_tokens);
        let has_calls = reply.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        let raw = stop_raw.clone();
        self.push_reply(reply, Some(stop_raw), tick);
        match stop {
            Stop::EndTurn | Stop::StopSequence | Stop::ToolUse | Stop::Other => {
                if !has_calls {
                    self.finish(StopReason::EndTurn, None);
                } else if self.iterations >= self.max_iterations {
                    self.close_calls("iteration_limit", tick);
                    self.finish(StopReason::ToolUse, None);
                } else {
                    self.state = State::Tools;
                }
            }
            // A call of an answer that was cut is never run, however whole it looks (FAULTS §0.3).
            Stop::MaxTokens | Stop::ContextFull => {
                self.close_calls("max_tokens", tick);
                self.finish(StopReason::MaxTokens, None);
            }
            Stop::Pause => {
                self.continuations = self.continuations.saturating_add(1);
                if self.continuations > MAX_CONTINUATIONS || self.iterations >= self.max_iterations
                {
                    self.close_calls("iteration_limit", tick);
                    self.finish(StopReason::ToolUse, None);
                } else if has_calls {
                    self.state = State::Tools;
                } else {
                    self.state = State::Ready;
                }
            }
            Stop::Refusal => {
                self.close_calls("refusal", tick);
                self.fail_with(
                    FailureKind::Refusal,
                    &raw,
                    "the model refused to answer; change the request",
                );
            }
            Stop::ContentFilter => {
                self.close_calls("content_filter", tick);
                self.fail_with(
                    FailureKind::Refusal,
                    &raw,
                    "the provider's content filter stopped the answer; change the request",
                );
            }
            Stop::MalformedToolCall => {
                self.close_calls("malformed_tool_call", tick);
                self.fail_with(
                    FailureKind::ServerError,
                    &raw,
                    "the model wrote a tool call that its provider could not read; try again",
                );
            }
            Stop::Error => {
                self.close_calls("interrupted", tick);
                self.fail_with(
                    FailureKind::ServerError,
                    &raw,
                    "the provider ended the answer with an error; try again",
                );
            }
        }
    }

    fn fail_with(&mut self, kind: FailureKind, code: &str, message: &str) {
        let error = Failure::new(kind, code, message).to_agent_error();
        self.finish(StopReason::Error, Some(error));
    }

    fn attempt_failed(
        &mut self,
        failure: &Failure,
        partial: Option<Reply>,
        emitted: bool,
        tick: &mut Tick<'_>,
    ) {
        if self.is_finished() {
            return;
        }
        let failure = &*retry::judged(failure);
        self.failures = self.failures.saturating_add(1);
        if let Some(partial) = &partial {
            // A failed call that reported usage is paid for as well (RULES §6).
            self.count(partial);
        }
        let facts = retry::Facts {
            failures: self.failures,
            emitted,
            remaining: tick.remaining,
            dice: tick.dice,
        };
        if let Some(delay) = retry::delay(failure, facts) {
            self.state = State::Waiting(delay);
            return;
        }
        if let Some(partial) = partial {
            self.push_reply(partial, None, tick);
            self.close_calls("interrupted", tick);
        }
        self.finish(StopReason::Error, Some(failure.to_agent_error()));
    }

    fn tool_started(&mut self, call_id: &str, params: Option<Box<RawValue>>, tick: &Tick<'_>) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.row.call_id == call_id)
            && call.row.status == ToolCallStatus::Pending
        {
            call.row.status = ToolCallStatus::Running;
            call.row.started_at = tick.now_ms;
            call.executed = true;
            if let Some(params) = params {
                call.row.params = params;
            }
        }
    }

    fn tool_finished(&mut self, call_id: &str, finish: ToolFinish, tick: &mut Tick<'_>) {
        if self.state != State::Tools {
            return;
        }
        let Some(call) = self
            .calls
            .iter_mut()
            .skip(self.batch)
            .find(|call| call.row.call_id == call_id && call.answer.is_none())
        else {
            return;
        };
        call.row.status =
            if finish.error.is_some() { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
        call.row.completed_at = Some(tick.now_ms);
        call.row.result = finish.result;
        call.row.error = finish.error;
        call.answer = Some(finish.content);
        if self.open_batch().all(|call| call.answer.is_some()) {
            self.push_results(tick);
            self.state = State::Ready;
        }
    }

    /// Appends the answers of the batch, in call order.
    fn push_results(&mut self, tick: &mut Tick<'_>) {
        let mut results = Vec::new();
        for call in self.calls.iter_mut().skip(self.batch) {
            results.push(Message {
                id: (tick.new_id)(),
                role: Role::Tool,
                blocks: vec![Block::ToolResult {
                    tool_call_id: call.row.id.clone(),
                    tool_name: call.row.tool_name.clone(),
                    content: call.answer.clone().unwrap_or_default(),
                    is_error: call.row.status == ToolCallStatus::Failed,
                }],
                sequence: 0,
                created_at: tick.now_ms,
                provenance: None,
                provider_stop_reason: None,
            });
        }
        self.batch = self.calls.len();
        for result in results {
            self.push(result);
        }
    }

    /// Closes every open call of the batch with a result row (RULES §1, "Pending calls at the end of a run").
    fn close_calls(&mut self, reason: &str, tick: &mut Tick<'_>) {
        if self.open_batch().next().is_none() {
            return;
        }
        for call in self.calls.iter_mut().skip(self.batch).filter(|call| call.answer.is_none()) {
            let text = match call.row.status {
                ToolCallStatus::Running => {
                    format!("The run ended ({reason}) while this tool ran; its outcome is unknown.")
                }
                ToolCallStatus::Pending | ToolCallStatus::Completed | ToolCallStatus::Failed => {
                    format!("This tool was not run ({reason}).")
                }
            };
            call.row.status = ToolCallStatus::Failed;
            call.row.error = Some(reason.to_owned());
            call.row.completed_at = Some(tick.now_ms);
            call.answer = Some(vec![Block::text(text)]);
        }
        self.push_results(tick);
    }

    fn steered(&mut self, texts: Vec<String>, tick: &mut Tick<'_>) {
        let goes_on = match &self.state {
            State::Ready => true,
            // A message that came while the last answer was written goes on in the same turn; else it would be lost.
            State::Finished(outcome) => {
                !self.sealed
                    && matches!(outcome.stop_reason, StopReason::EndTurn | StopReason::MaxTokens)
                    && self.iterations < self.max_iterations
            }
            State::Waiting(_) | State::Tools => false,
        };
        if !goes_on || texts.is_empty() {
            return;
        }
        for text in texts {
            let message = Message {
                id: (tick.new_id)(),
                role: Role::User,
                blocks: vec![Block::text(text)],
                sequence: 0,
                created_at: tick.now_ms,
                provenance: None,
                provider_stop_reason: None,
            };
            self.push(message);
        }
        self.state = State::Ready;
    }

    fn interrupted(&mut self, cause: Interrupt, partial: Option<Reply>, tick: &mut Tick<'_>) {
        self.sealed = true;
        if self.is_finished() {
            return;
        }
        if let Some(partial) = partial {
            self.count(&partial);
            self.push_reply(partial, None, tick);
        }
        match cause {
            Interrupt::Abort => {
                self.close_calls("aborted", tick);
                self.finish(StopReason::Aborted, None);
            }
            Interrupt::Timeout => {
                self.close_calls("interrupted", tick);
                let error = AgentError {
                    kind: AgentErrorKind::Timeout,
                    message: "the run reached `timeoutMs`; raise it, or ask for less".to_owned(),
                    retryable: true,
                    detail: ErrorDetail {
                        kind: FailureKind::Timeout,
                        status: None,
                        code: Some("run_timeout".to_owned()),
                        retry_after_ms: None,
                    },
                };
                self.finish(StopReason::Timeout, Some(error));
            }
        }
    }
}

fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
