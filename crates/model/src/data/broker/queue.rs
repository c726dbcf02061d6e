//! A message in a session's queue: what its order depends on, and its row.
//!
//! It must never decide anything: `crates/broker` does.

use serde::{Deserialize, Serialize};

use crate::MessageSender;

/// How a message is delivered to a session that is busy. An idle session runs it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum QueueMode {
    /// After the run, in the order of arrival, in a turn of its own.
    Queue,
    /// The same as `queue`.
    Followup,
    /// After the run, in one turn with the `collect` messages around it, each a message of its own.
    Collect,
    /// Ends the run; then one turn has what was queued before and this message.
    Interrupt,
    /// Enters the run after its current tools. If it cannot, it is the next to run.
    Steer,
    /// Enters the run after its current tools. If it cannot, it runs in the order of arrival.
    SteerBacklog,
}

/// Where a message came from and where its answer goes. Messages of different routes are never collected in one turn.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The platform: `telegram`, `discord`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The account of the host on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

/// What the order of a message depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueItem {
    /// Its id. A queue is in the order of arrival, whatever the ids are.
    pub id: String,
    /// How it is delivered to a busy session.
    pub mode: QueueMode,
    /// Where it came from.
    pub route: Route,
    /// Who sent it, with which permissions. Messages share a turn only where this is equal.
    pub principal: String,
    /// A worker's result, an approval or a schedule: exempt from the cap, the drop policy and the debounce.
    pub is_system: bool,
    /// How many turns were tried for it.
    pub tries: u32,
    /// How many of them failed without being the provider's trouble.
    pub failures: u32,
    /// It does not run before this time, in Unix milliseconds: a debounce, or the wait before another try.
    pub not_before: i64,
}

/// Which message a full queue drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum DropPolicy {
    /// The oldest.
    Old,
    /// The new one: it is rejected.
    New,
    /// The oldest; a line of it stands in a note before the next message.
    Summarize,
}

/// The limits of a session's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// The number of messages that may wait, system messages apart.
    pub cap: usize,
    /// What happens to a message over the cap.
    pub drop: DropPolicy,
    /// How long a `collect` message of a busy session waits for others, in milliseconds.
    pub debounce_ms: i64,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { cap: 20, drop: DropPolicy::Summarize, debounce_ms: 1_000 }
    }
}

/// Why a message has failed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum FailedReason {
    /// Its turn failed.
    RunFailed,
    /// Its turn was interrupted after a tool began.
    Interrupted,
    /// Seven turns failed.
    Poisoned,
    /// A full queue dropped it.
    Dropped,
    /// The host cancelled it.
    Cancelled,
    /// A full queue rejected it.
    Rejected,
}

/// What became of a message so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// It waits.
    Pending,
    /// A turn has taken it.
    Processing,
    /// A turn with it has ended.
    Delivered,
    /// It has failed for good.
    Failed,
}

/// A message in a session's queue, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredItem {
    /// What its order depends on.
    pub item: QueueItem,
    /// Its session.
    pub session_label: String,
    /// Who sends: `user`, `worker`, `timer`, …
    pub source: String,
    /// The message: JSON.
    pub message: String,
    /// The request without its message: JSON.
    pub request: String,
    /// The source's id of the event.
    pub event_id: Option<String>,
    /// The agent that has sent it; `None` for any other sender.
    pub sender: Option<Box<MessageSender>>,
    /// What became of it so far.
    pub status: ItemStatus,
    /// Why it has failed.
    pub reason: Option<FailedReason>,
    /// More about the reason.
    pub detail: Option<String>,
    /// The turn that has taken it; of a pending one, the running turn that it was offered to.
    pub turn_id: Option<String>,
    /// When it was accepted, in Unix milliseconds.
    pub created_at: i64,
    /// When a turn took it.
    pub claimed_at: Option<i64>,
    /// When it was delivered.
    pub delivered_at: Option<i64>,
}

names!(QueueMode {
    Queue = "queue",
    Followup = "followup",
    Collect = "collect",
    Interrupt = "interrupt",
    Steer = "steer",
    SteerBacklog = "steer-backlog",
});
names!(FailedReason {
    RunFailed = "run_failed",
    Interrupted = "interrupted",
    Poisoned = "poisoned",
    Dropped = "dropped",
    Cancelled = "cancelled",
    Rejected = "rejected",
});
names!(ItemStatus {
    Pending = "pending",
    Processing = "processing",
    Delivered = "delivered",
    Failed = "failed",
});
