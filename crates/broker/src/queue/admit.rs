//! Whether a message is queued, and which message is dropped for it (docs/rules/queue.md#cap).

use model::{DropPolicy, QueueItem, QueueLimits, QueueMode};

/// What happens to a new message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It is queued, not to run before `not_before`, and `dropped` (ids, oldest first) are dropped for it.
    Queued {
        /// In Unix milliseconds.
        not_before: i64,
        /// Which messages it replaces.
        dropped: Vec<String>,
    },
    /// The queue is full, and its policy is to reject new messages.
    Rejected,
}

/// Decides about a new message. `pending` is what waits, in the order of arrival; `is_busy`: a turn of the session runs.
///
/// An `interrupt` takes the queue with it, so that only others of its mode are counted: those of a suspended queue wait.
#[must_use]
pub fn admit(
    new: &QueueItem,
    pending: &[QueueItem],
    is_busy: bool,
    limits: QueueLimits,
    now: i64,
) -> Admission {
    let collects = new.mode == QueueMode::Collect && !new.is_system;
    // A session that does nothing gains nothing by waiting.
    let debounced = collects && (is_busy || !pending.is_empty());
    let debounce = if debounced { limits.debounce_ms.max(0) } else { 0 };
    let not_before = now.saturating_add(debounce);
    if new.is_system {
        return Admission::Queued { not_before, dropped: Vec::new() };
    }
    let interrupts = new.mode == QueueMode::Interrupt;
    let counts =
        |it: &&QueueItem| !it.is_system && (!interrupts || it.mode == QueueMode::Interrupt);
    let messages: Vec<&QueueItem> = pending.iter().filter(counts).collect();
    // A cap below one would drop each message before it could run.
    let room = limits.cap.max(1).saturating_sub(1);
    let over = messages.len().saturating_sub(room);
    if over > 0 && limits.drop == DropPolicy::New {
        return Admission::Rejected;
    }
    let dropped = messages.into_iter().take(over).map(|it| it.id.clone()).collect();
    Admission::Queued { not_before, dropped }
}
