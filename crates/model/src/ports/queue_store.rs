//! The port of the broker's queues: messages that wait for their sessions, durable from the receipt on.
//!
//! A turn takes and ends messages in its own commit points (`TurnOpening::items`, `TurnStep::items`, `TurnEnd::queue`); this
//! port has what happens outside of a turn. A backend decides by `crates/broker` only.

use std::sync::Arc;

use crate::{MessageSender, PortFuture, QueueItem, QueueLimits, StoredItem};

/// Where a new message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueTarget {
    /// A session, by its label or an alias.
    Session(String),
    /// A turn: its session if it is a session's head (of several, the one created first), else a fork with that label.
    Thread {
        /// The turn.
        turn_id: String,
        /// The label of the fork.
        fork: String,
    },
}

/// A message that is to be queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewItem {
    /// What its order depends on.
    pub item: QueueItem,
    /// Where it goes.
    pub to: QueueTarget,
    /// Who sends: `user`, `worker`, `timer`, …
    pub source: String,
    /// The message: JSON.
    pub message: String,
    /// The request without its message: JSON.
    pub request: String,
    /// The source's id of the event. A second message of the same channel, account and id is a duplicate.
    pub event_id: Option<String>,
    /// The agent that sends it; `None` for any other sender.
    pub sender: Option<Box<MessageSender>>,
}

/// What became of a new message. Its row is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    /// It waits.
    Queued {
        /// Its session.
        session_label: String,
        /// Whether the session was made for it, as a fork.
        is_fork: bool,
        /// The messages that a full queue has dropped for it, oldest first.
        dropped: Vec<String>,
    },
    /// Its event was queued before.
    Duplicate {
        /// The first message of the event.
        item_id: String,
        /// Its session.
        session_label: String,
    },
    /// The queue is full: its row is `failed`, `rejected`.
    Rejected {
        /// Its session.
        session_label: String,
    },
}

/// What the next step of a session depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionQueue {
    /// The messages that wait, in the order of arrival; also those that were offered to the running turn.
    pub pending: Vec<StoredItem>,
    /// Dropped messages that no turn has named yet, oldest first.
    pub dropped: Vec<StoredItem>,
    /// The open turn that has taken messages.
    pub open_turn: Option<String>,
    /// The turn of the session that waits for a decision.
    pub parked_turn: Option<String>,
    /// Whether the host has suspended the queue.
    pub is_suspended: bool,
    /// Who has the session's lease.
    pub lease: QueueLease,
}

/// Which messages of a queue are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueView {
    /// All.
    Whole,
    /// Those that may enter or end a running turn, by their modes, and those that are in it: of a long queue a few.
    OfRunningTurn,
}

/// Who has the lease of a session with a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueLease {
    /// Nobody, or a process that has ended.
    #[default]
    Free,
    /// This process.
    Here,
    /// Another process that lives, for its next turn.
    Elsewhere,
    /// Another process that lives, in which a turn of the session runs.
    RunsElsewhere,
}

/// Called with the label of a session whose queue another process has changed. It returns at once.
pub type QueueWake = Arc<dyn Fn(&str) + Send + Sync>;

/// The queues of a ledger's sessions. A write is submitted before its future is first polled.
pub trait QueueStore: Send + Sync {
    /// From now on `wake` is called for changes of other processes, where the ledger is notified of them. Some may be missed: who needs them
    /// looks by itself, too.
    fn watch_queues(&self, wake: QueueWake) {
        drop(wake);
    }

    /// Queues a message: resolved target, dedupe, cap and debounce in one transaction.
    ///
    /// # Errors
    /// `unknown_turn` for a thread that does not exist; any of storage. Nothing is written then.
    fn enqueue(&self, item: Box<NewItem>, limits: QueueLimits) -> PortFuture<'static, Enqueued>;

    /// What the next step of a session depends on.
    fn queue<'a>(&'a self, session_label: &'a str, view: QueueView)
    -> PortFuture<'a, SessionQueue>;

    /// The messages of a session that wait or are in a turn, in the order of arrival.
    fn waiting_items<'a>(&'a self, session_label: &'a str) -> PortFuture<'a, Vec<StoredItem>>;

    /// The message of that id.
    fn queue_item<'a>(&'a self, id: &'a str) -> PortFuture<'a, Option<StoredItem>>;

    /// The sessions with messages that wait or are in a turn.
    fn waiting_sessions(&self) -> PortFuture<'_, Vec<String>>;

    /// Offers waiting messages to a running turn: until it has taken them or has ended, nothing else does, and they are neither
    /// cancelled nor dropped. Returns those that were still waiting.
    fn offer(&self, ids: Vec<String>, turn_id: String) -> PortFuture<'static, Vec<String>>;

    /// Takes back what a turn was offered and has not taken.
    fn withdraw(&self, turn_id: String) -> PortFuture<'static, ()>;

    /// Cancels a message that waits; false for any other.
    fn cancel(&self, id: String) -> PortFuture<'static, bool>;

    /// Cancels all messages of a session that wait. Returns their ids.
    fn clear(&self, session_label: String) -> PortFuture<'static, Vec<String>>;

    /// Waiting messages have failed for good, because their turn could not begin.
    fn refuse(&self, ids: Vec<String>, detail: String) -> PortFuture<'static, ()>;

    /// Suspends a session's queue, or ends that.
    fn suspend(&self, session_label: String, is_suspended: bool) -> PortFuture<'static, ()>;
}
