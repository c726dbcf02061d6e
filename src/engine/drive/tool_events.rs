//! The events and warnings of tool calls. It must never run a tool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::outcome;
use crate::engine::events::EventQueue;
use base::telemetry;
use model::{AgentToolCall, RunWarning, StreamEvent, ToolStatus};
use tools::{Invocation, ReconcileFuture, StepFuture, ToolFuture, ToolHost};
use turn::machine::{Machine, PendingCall};

/// A warning for images that were left out of an answer.
pub(super) fn unreadable(call: &PendingCall, images: usize) -> Option<RunWarning> {
    (images > 0).then(|| RunWarning {
        code: "unusable_image".to_owned(),
        field: None,
        message: format!(
            "`{}` returned {images} images whose data is not base64; the model reads a note instead",
            call.tool_name
        ),
    })
}

/// Emits `started` when the tool itself is about to run, and not when a call is only reconciled.
pub(super) struct Announcing<'a> {
    host: &'a dyn ToolHost,
    queue: &'a Arc<EventQueue>,
    call: &'a PendingCall,
    /// A retry emits no second `started`.
    announced: AtomicBool,
}

impl<'a> Announcing<'a> {
    pub(super) fn new(
        host: &'a dyn ToolHost,
        queue: &'a Arc<EventQueue>,
        call: &'a PendingCall,
    ) -> Self {
        Self { host, queue, call, announced: AtomicBool::new(false) }
    }
}

impl ToolHost for Announcing<'_> {
    fn execute(&self, invocation: Invocation, cancel: CancellationToken) -> ToolFuture {
        if !self.announced.swap(true, Ordering::AcqRel) {
            emit_started(self.queue, self.call, &invocation.arguments_json);
        }
        self.host.execute(invocation, cancel)
    }

    fn reconcile(&self, invocation: Invocation, cancel: CancellationToken) -> ReconcileFuture {
        self.host.reconcile(invocation, cancel)
    }

    fn spill(&self, tool: String, text: String) -> Option<StepFuture> {
        self.host.spill(tool, text)
    }
}

fn emit_started(queue: &Arc<EventQueue>, call: &PendingCall, arguments: &str) {
    queue.event(|seq| StreamEvent::ToolStatus {
        tool_name: call.tool_name.clone(),
        tool_call_id: call.provider_call_id.clone(),
        status: ToolStatus::Started,
        call_id: call.call_id.clone(),
        summary: None,
        duration_ms: None,
        params: RawValue::from_string(arguments.to_owned()).ok(),
        result: None,
        is_error: None,
        message_id: call.message_id.clone(),
        seq,
    });
}

/// The end of a call, which is emitted when its result is on its way into the ledger: the stored event refers to it.
pub(super) struct EndedCall<'a> {
    pub(super) call: &'a PendingCall,
    /// The tool itself ran.
    pub(super) ran: bool,
    /// What its summary is taken from.
    pub(super) text: Option<String>,
}

/// Emits the end of a call, with the result that the machine has.
pub(super) fn emit_ended(queue: &Arc<EventQueue>, machine: &Machine, ended: EndedCall<'_>) {
    let EndedCall { call, ran, text } = ended;
    let row: Option<&AgentToolCall> =
        machine.calls().map(|state| state.row).find(|row| row.call_id == call.call_id);
    let failed = row.is_none_or(|row| row.error.is_some());
    let took = row.and_then(|row| row.completed_at?.checked_sub(row.started_at));
    let took = took.filter(|_| ran).map(|took| u64::try_from(took).unwrap_or_default());
    telemetry::tool_ended(&call.tool_name, &call.call_id, ran, !failed, took.unwrap_or_default());
    queue.event(|seq| StreamEvent::ToolStatus {
        tool_name: call.tool_name.clone(),
        tool_call_id: call.provider_call_id.clone(),
        status: if failed { ToolStatus::Failed } else { ToolStatus::Completed },
        call_id: call.call_id.clone(),
        summary: text.as_deref().and_then(outcome::summary),
        duration_ms: took,
        params: None,
        result: row.and_then(|row| row.result.clone()),
        is_error: Some(failed),
        message_id: call.message_id.clone(),
        seq,
    });
}
