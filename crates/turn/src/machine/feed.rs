//! Applies an event and returns the next step.
//!
//! It must never let a late event change a finished turn.

use super::protocol::{Event, Interrupt, PendingCall, Reply, Step, Tick};
use super::state::{Machine, State};
use model::{
    AgentError, AgentErrorKind, Block, ErrorDetail, FailureKind, Message, Role, StopReason,
    ToolCallStatus,
};

impl Machine {
    /// Applies an event and returns the next step. A late event (a tool that returns after an abort) changes nothing.
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
            Event::Steered(messages) => self.steered(messages, tick),
            Event::Interrupted { cause, partial } => self.interrupted(cause, partial, tick),
            Event::Planned(reply) => self.planned(reply, tick),
            Event::Stopped => {
                if matches!(self.state, State::Ready) {
                    self.finish(StopReason::ToolUse, None);
                }
            }
            Event::OutputInvalid(error) => {
                if self.is_answered() {
                    self.finish(StopReason::Error, Some(error));
                }
            }
            Event::OutputUnchecked(cause) => {
                if self.is_answered() {
                    self.state = State::Ready;
                    self.interrupted(cause, None, tick);
                }
            }
            Event::Broken(error) => {
                if !self.is_finished() {
                    self.close_calls("interrupted", tick);
                    self.finish(StopReason::Error, Some(error));
                }
            }
        }
        self.step()
    }

    /// The next step.
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

    /// Whether an answer without calls has ended the turn.
    fn is_answered(&self) -> bool {
        matches!(&self.state, State::Finished(outcome)
            if matches!(outcome.stop_reason, StopReason::EndTurn | StopReason::MaxTokens))
    }

    fn steered(&mut self, messages: Vec<Vec<Block>>, tick: &mut Tick<'_>) {
        let continues = match &self.state {
            State::Ready => true,
            // A message that arrived during the last answer continues the same turn; otherwise it would be lost.
            State::Finished(_) => {
                !self.sealed && self.is_answered() && self.iterations < self.max_iterations
            }
            State::Waiting(_) | State::Tools => false,
        };
        if !continues || messages.is_empty() {
            return;
        }
        for blocks in messages {
            let message = Message {
                id: (tick.new_id)(),
                role: Role::User,
                blocks,
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
                let message = "the run reached `timeoutMs`; raise it, or request less";
                self.finish(StopReason::Timeout, Some(out_of_time(message, "run_timeout")));
            }
            Interrupt::Expired => {
                self.close_calls("interrupted", tick);
                let message = "the signal of the run has timed out; pass one with more time";
                self.finish(StopReason::Timeout, Some(out_of_time(message, "signal_timeout")));
            }
        }
    }
}

/// The error of a run whose time is over.
fn out_of_time(message: &str, code: &str) -> AgentError {
    AgentError {
        kind: AgentErrorKind::Timeout,
        message: message.to_owned(),
        retryable: true,
        detail: ErrorDetail {
            kind: FailureKind::Timeout,
            status: None,
            code: Some(code.to_owned()),
            retry_after_ms: None,
            retry_after_source: None,
        },
    }
}
