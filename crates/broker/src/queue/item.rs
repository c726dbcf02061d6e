//! A message in a session's queue, with what its order depends on.
//!
//! It must never have the message itself: no decision depends on what a message says.

use serde::{Deserialize, Serialize};

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
pub struct Route {
    /// The platform: `telegram`, `discord`, …
    pub channel: Option<String>,
    /// The account of the host on it.
    pub account: Option<String>,
    /// The thread.
    pub thread: Option<String>,
}

/// A pending message.
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
