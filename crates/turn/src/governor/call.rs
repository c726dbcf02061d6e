//! A call of a lane, waiting or under way, as plain data. It must never decide.

use super::meter::Meter;

/// Which calls are admitted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A user waits for the answer.
    Interactive,
    /// A worker's or a subagent's session.
    Worker,
    /// A summary.
    Compaction,
}

/// The properties that decide a call's position in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The priority of a waiting call.
    pub priority: Priority,
    /// One more refusal would end it.
    pub last: bool,
}

impl From<Priority> for Claim {
    fn from(priority: Priority) -> Self {
        Self { priority, last: false }
    }
}

/// The counted units: requests, tokens, tokens of prompts, tokens of answers.
pub(super) const KINDS: usize = 4;
pub(super) type Amounts = [u64; KINDS];

/// A waiting call.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: u64,
    pub(super) claim: Claim,
    pub(super) input: u64,
    pub(super) queued_at: i64,
    /// The number of calls admitted before it was queued.
    pub(super) admitted_before: u64,
}

/// An admitted call.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) cost: Amounts,
    /// The units that the answers before it had settled.
    pub(super) settled: Amounts,
    pub(super) at: i64,
    pub(super) answered: bool,
    /// It is on its way, and does not wait for the other processes.
    pub(super) on_its_way: bool,
    /// It was admitted although the reported limits were used up.
    pub(super) forced: bool,
    /// It was admitted after a refusal as a probe.
    pub(super) probe: bool,
    /// One more refusal would end it.
    pub(super) last: bool,
}

/// The next step of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This call is admitted now; call [`super::Lane::next`] again.
    Go(u64),
    /// This call is first, and waits until this time, or for an answer.
    Wait(u64, i64),
    /// No call waits.
    Idle,
}

/// The calls of a process at the moment of a change.
#[derive(Debug, Clone)]
pub struct Local {
    pub(super) process: String,
    /// The call that the change is about.
    pub(super) cost: Amounts,
    /// The units of the other calls that are unanswered.
    pub(super) others: Amounts,
    /// The limits as this process knows them, without the call.
    pub(super) meters: [Option<Meter>; KINDS],
    /// The time of those.
    pub(super) now: i64,
    /// When the call was sent.
    pub(super) sent_at: i64,
}
