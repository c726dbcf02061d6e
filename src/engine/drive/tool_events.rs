//! The events and warnings of tool calls. It must never run a tool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use crate::engine::events::EventQueue;
use crate::tools::{Invocation, ReconcileFuture, ToolFuture, ToolHost};
use model::{RunWarning, StreamEvent, ToolStatus};
use turn::machine::PendingCall;

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
            emit_status(self.queue, self.call, ToolStatus::Started, None);
        }
        self.host.execute(invocation, cancel)
    }

    fn reconcile(&self, invocation: Invocation, cancel: CancellationToken) -> ReconcileFuture {
        self.host.reconcile(invocation, cancel)
    }
}

/// Emits the status of a call.
pub(super) fn emit_status(
    queue: &Arc<EventQueue>,
    call: &PendingCall,
    status: ToolStatus,
    summary: Option<String>,
) {
    queue.event(|seq| StreamEvent::ToolStatus {
        tool_name: call.tool_name.clone(),
        tool_call_id: call.provider_call_id.clone(),
        status,
        summary,
        message_id: call.message_id.clone(),
        seq,
    });
}
