//! Whether a message is queued, and which messages are dropped for it (docs/rules/queue.md#cap).

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

/// Which of the messages that wait a new one is counted with, and how many of them there is room for beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Only those that interrupt: an `interrupt` takes the others with it, but those of a suspended queue wait.
    pub interrupts_only: bool,
    /// So many of the newest remain.
    pub room: u32,
}

impl Counted {
    /// Those of the cap for a new message; `None` for one that is exempt from it. System messages are never counted.
    #[must_use]
    pub fn of(new: &QueueItem, limits: QueueLimits) -> Option<Self> {
        // A cap below one would drop each message before it could run.
        let room = u32::try_from(limits.cap.max(1) - 1).unwrap_or(u32::MAX);
        let interrupts_only = new.mode == QueueMode::Interrupt;
        (!new.is_system).then_some(Self { interrupts_only, room })
    }
}

/// Whether a new message waits for others of its kind, where its session is busy or has messages that wait.
#[must_use]
pub fn is_debounced(new: &QueueItem) -> bool {
    new.mode == QueueMode::Collect && !new.is_system
}

/// Decides about a new message. `over` are the messages that it is [`Counted`] with and that there is no room for, the oldest first;
/// `is_busy`: a turn of the session runs, or a message waits. A session that does nothing gains nothing by waiting.
#[must_use]
pub fn admit(
    new: &QueueItem,
    over: Vec<String>,
    is_busy: bool,
    limits: QueueLimits,
    now: i64,
) -> Admission {
    let waits = is_debounced(new) && is_busy;
    let debounce = if waits { limits.debounce_ms.max(0) } else { 0 };
    if !over.is_empty() && limits.drop == DropPolicy::New {
        return Admission::Rejected;
    }
    Admission::Queued { not_before: now.saturating_add(debounce), dropped: over }
}
