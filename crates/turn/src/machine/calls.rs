//! The tool calls of the turn: each one gets exactly one result, and the results are in call order.
//!
//! It must never leave a call of a finished batch without a result.

use serde_json::value::RawValue;

use super::protocol::{Tick, ToolFinish};
use super::state::{Machine, State};
use model::{Block, Message, Role, ToolCallStatus};

/// What the model reads as the result of an incomplete call.
pub(super) const INCOMPLETE: &str = "This tool was not run: the call was cut before its end.";

impl Machine {
    /// Runs the calls of the answer, except those at `cut`: they may be truncated, even if they look whole
    /// (docs/rules/faults.md#truncated-calls).
    pub(super) fn begin_batch(&mut self, cut: Vec<usize>, tick: &mut Tick<'_>) {
        for at in cut {
            let content = vec![Block::text(INCOMPLETE)];
            self.answer(at, content, None, Some("incomplete".to_owned()), tick);
        }
        self.state = State::Tools;
        self.end_batch();
    }

    pub(super) fn tool_started(
        &mut self,
        call_id: &str,
        params: Option<Box<RawValue>>,
        tick: &Tick<'_>,
    ) {
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

    pub(super) fn tool_finished(&mut self, call_id: &str, finish: ToolFinish, tick: &mut Tick<'_>) {
        if self.state != State::Tools {
            return;
        }
        let at = self
            .calls
            .iter()
            .skip(self.batch)
            .position(|call| call.row.call_id == call_id && call.answer.is_none());
        let Some(at) = at else { return };
        if finish.spawned_session_label.is_some()
            && let Some(call) = self.calls.get_mut(self.batch.saturating_add(at))
        {
            call.row.spawned_session_label = finish.spawned_session_label;
        }
        self.answer(at, finish.content, finish.result, finish.error, tick);
        self.end_batch();
    }

    /// Continues with the model once every call of the batch has its result.
    pub(super) fn end_batch(&mut self) {
        if self.open_batch().all(|call| call.answer.is_some()) {
            self.push_results();
            self.state = State::Ready;
        }
    }

    /// Sets the result of the call at index `at` of the batch.
    pub(super) fn answer(
        &mut self,
        at: usize,
        content: Vec<Block>,
        result: Option<Box<RawValue>>,
        error: Option<String>,
        tick: &mut Tick<'_>,
    ) {
        let sequence = self.messages.len().saturating_add(at);
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
            // Set before the other results are there, so that it can be stored immediately.
            sequence: u32::try_from(sequence).unwrap_or(u32::MAX),
            created_at: tick.now_ms,
            provenance: None,
            provider_stop_reason: None,
        }));
    }

    /// Appends the results of the batch, in call order.
    pub(super) fn push_results(&mut self) {
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
    pub(super) fn close_calls(&mut self, reason: &str, tick: &mut Tick<'_>) {
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
}
