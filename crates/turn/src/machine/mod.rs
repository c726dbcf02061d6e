//! The loop of one turn as a sans-IO machine: events in, the next step out (docs/design/runs.md#the-loop).
//!
//! It owns the turn's messages and tool calls, and that every call is answered exactly once. It must never await, read a
//! clock or make an id: the driver does, and feeds back what happened.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

mod restore;

use model::{
    AgentError, AgentErrorKind, AgentToolCall, Block, ErrorDetail, Failure, FailureKind, Message,
    Progress, Provenance, Role, Stop, StopReason, TokenUsage, ToolCallStatus,
};

/// What the model reads of a call whose block never closed.
const INCOMPLETE: &str = "This tool was not run: the call was cut before its end.";

const MALFORMED_CALL: &str =
    "the model wrote a tool call that its provider could not read; try again";

/// How long a call that could not be read is waited with.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// `pause_turn` is continued this often (docs/rules/turns-and-streams.md#iteration-limit, docs/rules/wire/usage.md#stops).
const MAX_CONTINUATIONS: u32 = 8;

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
        /// After how long another attempt is made; `None` ends the run. See [`super::fallback`].
        again: Option<Duration>,
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
    /// Ask the tool what became of it, before it may run (again).
    #[serde(default)]
    reconcile: bool,
    /// The message the model reads, with its place in the turn; `None` while the call is open.
    answer: Option<Box<Message>>,
}

impl Call {
    fn new(row: AgentToolCall, arguments_json: String) -> Self {
        Self { row, arguments_json, executed: false, reconcile: false, answer: None }
    }
}

/// A call as it stands, for whoever writes it down.
#[derive(Debug, Clone, Copy)]
pub struct CallState<'a> {
    /// The call.
    pub row: &'a AgentToolCall,
    /// Its answer, where it has one; among [`Machine::messages`] once its whole batch is answered.
    pub answer: Option<&'a Message>,
}

/// The state of one turn. Serialisable, so that a turn can be resumed elsewhere.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    max_iterations: u32,
    iterations: u32,
    continuations: u32,
    /// Whether the model was already asked again for the tool call it is writing.
    #[serde(default)]
    asked_again: bool,
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
            asked_again: false,
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

    /// What the machine has counted, for whoever writes it down. What it does not know is left empty.
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

    /// Takes an event and says what to do next. Events that come too late (a tool that answers after an abort) change
    /// nothing.
    pub fn feed(&mut self, event: Event, tick: &mut Tick<'_>) -> Step {
        match event {
            Event::Replied { reply, stop, stop_raw } => self.replied(reply, stop, stop_raw, tick),
            Event::AttemptFailed { failure, partial, emitted, again } => {
                self.attempt_failed(&failure, partial, again.filter(|_| !emitted), tick);
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
                        reconcile: call.reconcile,
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

    /// Appends an answer and its calls. Gives the places in the batch of calls whose block never closed.
    fn push_reply(
        &mut self,
        mut reply: Reply,
        stop_raw: Option<String>,
        tick: &mut Tick<'_>,
    ) -> Vec<usize> {
        if reply.blocks.is_empty() {
            return Vec::new();
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
                let row = AgentToolCall {
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
                };
                self.calls.push(Call::new(row, arguments_json.clone()));
            }
        }
        let cut: Vec<usize> = reply
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::ToolCall { incomplete, .. } => Some(*incomplete),
                Block::Text { .. }
                | Block::Image { .. }
                | Block::Thinking { .. }
                | Block::RedactedThinking { .. }
                | Block::ToolResult { .. }
                | Block::Opaque { .. } => None,
            })
            .enumerate()
            .filter_map(|(at, incomplete)| incomplete.then_some(at))
            .collect();
        self.push(Message {
            id: reply.message_id,
            role: Role::Assistant,
            blocks: reply.blocks,
            sequence: 0,
            created_at: tick.now_ms,
            provenance: Some(reply.provenance),
            provider_stop_reason: stop_raw,
        });
        cut
    }

    /// Runs the calls of the answer, but for those at `cut`: nobody knows what they were to be, however whole they look
    /// (docs/rules/faults.md#truncated-calls).
    fn begin_batch(&mut self, cut: Vec<usize>, tick: &mut Tick<'_>) {
        for at in cut {
            let told = vec![Block::text(INCOMPLETE)];
            self.answer(at, told, None, Some("incomplete".to_owned()), tick);
        }
        self.state = State::Tools;
        self.end_batch();
    }

    fn replied(&mut self, reply: Reply, stop: Stop, stop_raw: String, tick: &mut Tick<'_>) {
        if self.is_finished() {
            return;
        }
        // A call that its provider could not read is often right the next time. Once: then the model cannot do better.
        if stop == Stop::MalformedToolCall && !self.asked_again && !is_shown(&reply.blocks) {
            self.asked_again = true;
            let failure = Failure::new(FailureKind::ServerError, &stop_raw, MALFORMED_CALL);
            self.attempt_failed(&failure, Some(reply), Some(ASK_AGAIN), tick);
            return;
        }
        self.asked_again = false;
        self.iterations = self.iterations.saturating_add(1);
        self.count(&reply);
        self.context_tokens = Some(reply.usage.total_tokens);
        let has_calls = reply.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        let raw = stop_raw.clone();
        let cut = self.push_reply(reply, Some(stop_raw), tick);
        match stop {
            Stop::EndTurn | Stop::StopSequence | Stop::ToolUse | Stop::Other => {
                if !has_calls {
                    self.finish(StopReason::EndTurn, None);
                } else if self.iterations >= self.max_iterations {
                    self.close_calls("iteration_limit", tick);
                    self.finish(StopReason::ToolUse, None);
                } else {
                    self.begin_batch(cut, tick);
                }
            }
            // A call of an answer that was cut is never run, however whole it looks (docs/rules/faults.md#truncated-calls).
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
                    self.begin_batch(cut, tick);
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
                self.fail_with(FailureKind::ServerError, &raw, MALFORMED_CALL);
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
        again: Option<Duration>,
        tick: &mut Tick<'_>,
    ) {
        if self.is_finished() {
            return;
        }
        if let Some(partial) = &partial {
            // A failed call that reported usage is paid for as well (docs/rules/abort-usage.md#usage).
            self.count(partial);
        }
        if let Some(delay) = again.filter(|delay| delay.is_zero() || *delay < tick.remaining) {
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
        let at = self
            .calls
            .iter()
            .skip(self.batch)
            .position(|call| call.row.call_id == call_id && call.answer.is_none());
        let Some(at) = at else { return };
        self.answer(at, finish.content, finish.result, finish.error, tick);
        self.end_batch();
    }

    /// Goes on to the model once every call of the batch is answered.
    fn end_batch(&mut self) {
        if self.open_batch().all(|call| call.answer.is_some()) {
            self.push_results();
            self.state = State::Ready;
        }
    }

    /// Answers the call at place `at` of the batch.
    fn answer(
        &mut self,
        at: usize,
        content: Vec<Block>,
        result: Option<Box<RawValue>>,
        error: Option<String>,
        tick: &mut Tick<'_>,
    ) {
        let place = self.messages.len().saturating_add(at);
        let Some(call) = self.calls.get_mut(self.batch.saturating_add(at)) else { return };
        call.row.status =
            if error.is_some() { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
        call.row.completed_at = Some(tick.now_ms);
        call.row.result = result;
        call.row.error = error;
        call.answer = Some(Box::new(Message {
            id: (tick.new_id)(),
            role: Role::Tool,
            blocks: vec![Block::ToolResult {
                tool_call_id: call.row.id.clone(),
                tool_name: call.row.tool_name.clone(),
                content,
                is_error: call.row.status == ToolCallStatus::Failed,
            }],
            // Known before its neighbours are answered, so that it can be written down at once.
            sequence: u32::try_from(place).unwrap_or(u32::MAX),
            created_at: tick.now_ms,
            provenance: None,
            provider_stop_reason: None,
        }));
    }

    /// Appends the answers of the batch, in call order.
    fn push_results(&mut self) {
        let answers: Vec<Message> = self
            .calls
            .iter_mut()
            .skip(self.batch)
            .filter_map(|call| call.answer.as_deref().cloned())
            .collect();
        self.batch = self.calls.len();
        for answer in answers {
            self.push(answer);
        }
    }

    /// Closes every open call of the batch with a result row (docs/rules/turns-and-streams.md#open-calls-at-the-end).
    fn close_calls(&mut self, reason: &str, tick: &mut Tick<'_>) {
        if self.open_batch().next().is_none() {
            return;
        }
        let open: Vec<(usize, ToolCallStatus)> = self
            .open_batch()
            .enumerate()
            .filter(|(_, call)| call.answer.is_none())
            .map(|(at, call)| (at, call.row.status))
            .collect();
        for (at, status) in open {
            let text = match status {
                ToolCallStatus::Running => {
                    format!("The run ended ({reason}) while this tool ran; its outcome is unknown.")
                }
                ToolCallStatus::Pending | ToolCallStatus::Completed | ToolCallStatus::Failed => {
                    format!("This tool was not run ({reason}).")
                }
            };
            self.answer(at, vec![Block::text(text)], None, Some(reason.to_owned()), tick);
        }
        self.push_results();
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
                        retry_after_source: None,
                    },
                };
                self.finish(StopReason::Timeout, Some(error));
            }
        }
    }
}

/// Whether the reader has seen some of a response: such a one is never asked for again (docs/rules/turns-and-streams.md#retry-visibility).
fn is_shown(blocks: &[Block]) -> bool {
    blocks.iter().any(|block| match block {
        Block::Text { text, .. } => !text.is_empty(),
        Block::Thinking { thinking, .. } => !thinking.is_empty(),
        Block::Image { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. }
        | Block::Opaque { .. } => false,
    })
}

fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
