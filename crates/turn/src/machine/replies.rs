//! Applies an answer of the model, or a failed attempt, to the turn.
//!
//! It must never run an incomplete call, nor a call of an answer that was cut.

use std::time::Duration;

use serde_json::value::RawValue;

use super::protocol::{Reply, Tick};
use super::state::{Call, Machine, State};
use model::{
    AgentToolCall, Block, Failure, FailureKind, Message, PLANNED, Role, Stop, StopReason,
    ToolCallStatus,
};

const MALFORMED_CALL: &str =
    "the model wrote a tool call that its provider could not read; try again";

/// The delay before a malformed tool call is requested again.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// How often `pause_turn` is continued (docs/rules/turns-and-streams.md#iteration-limit, docs/rules/wire/usage.md#stops).
const MAX_CONTINUATIONS: u32 = 8;

impl Machine {
    pub(super) fn count(&mut self, reply: &Reply) {
        self.usage = self.usage.plus(reply.usage);
        self.usage_estimated |= reply.usage_estimated;
    }

    /// Appends an answer and its calls. Returns the indexes in the batch of incomplete calls.
    pub(super) fn push_reply(
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
            // Some servers send no call id; without one the result could not be matched to the call.
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

    pub(super) fn replied(
        &mut self,
        reply: Reply,
        stop: Stop,
        stop_raw: String,
        tick: &mut Tick<'_>,
    ) {
        if self.is_finished() {
            return;
        }
        // A call that its provider could not parse is often right the next time. It is requested again once only.
        if stop == Stop::MalformedToolCall && !self.requested_again && !is_shown(&reply.blocks) {
            self.requested_again = true;
            let failure = Failure::new(FailureKind::ServerError, &stop_raw, MALFORMED_CALL);
            self.attempt_failed(&failure, Some(reply), Some(RETRY_DELAY), tick);
            return;
        }
        self.requested_again = false;
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
            // A call of an answer that was cut is never run, even if it looks whole (docs/rules/faults.md#truncated-calls).
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

    /// Appends what a planner decided. It counts as a step, so that a planner which always plans ends at the limit too.
    pub(super) fn planned(&mut self, reply: Reply, tick: &mut Tick<'_>) {
        if self.state != State::Ready {
            return;
        }
        self.iterations = self.iterations.saturating_add(1);
        let has_calls = reply.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        self.push_reply(reply, Some(PLANNED.to_owned()), tick);
        if !has_calls {
            self.finish(StopReason::EndTurn, None);
        } else if self.iterations >= self.max_iterations {
            self.close_calls("iteration_limit", tick);
            self.finish(StopReason::ToolUse, None);
        } else {
            self.begin_batch(Vec::new(), tick);
        }
    }

    pub(super) fn fail_with(&mut self, kind: FailureKind, code: &str, message: &str) {
        let error = Failure::new(kind, code, message).to_agent_error();
        self.finish(StopReason::Error, Some(error));
    }

    pub(super) fn attempt_failed(
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
}

/// Whether a part of a response was emitted: then it is never retried (docs/rules/turns-and-streams.md#retry-visibility).
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
