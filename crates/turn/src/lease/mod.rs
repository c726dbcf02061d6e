//! Who may run a session: the rules of leases by epoch, expiry and clock (docs/rules/sessions-and-ledger.md#lease), and of the
//! queue of those that wait for one.
//!
//! A lease is a row per session: its epoch only grows, its owner is an open ledger of a process. It outlives the turn that
//! took it: while no turn is open under it, it is free for every ledger, and its owner may use it again. The backend reads
//! the rows, applies these rules, and writes in the same transaction. They must never let an epoch write that is not the
//! newest, and never take a lease from a process whose turn may be alive.

#[cfg(test)]
mod tests;

/// The holder of a lease, from the view of an open ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// No open ledger.
    Released,
    /// This open ledger.
    Own {
        /// The epoch under which it runs the session now.
        running: Option<i64>,
    },
    /// Another open ledger.
    Other {
        /// Whether its process is known to have ended.
        known_dead: bool,
    },
}

/// A lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Its epoch.
    pub epoch: i64,
    /// Its holder.
    pub holder: Holder,
    /// When it ends without another heartbeat, in milliseconds of the shared clock.
    pub expires_at: i64,
    /// Its last heartbeat, on that clock.
    pub heartbeat_at: i64,
}

/// The clock that all holders share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds.
    pub ms: i64,
    /// Whether it may be set back, as the wall clock: then the age of a heartbeat in the future is unknown.
    pub can_step: bool,
}

impl Lease {
    /// Whether its holder may run the session now. It does if a turn is open under the epoch; otherwise the lease is free.
    #[must_use]
    pub fn is_live(&self, now: Now) -> bool {
        match self.holder {
            Holder::Released => false,
            Holder::Own { running } => running == Some(self.epoch),
            Holder::Other { known_dead } => {
                let begun = !now.can_step || self.heartbeat_at <= now.ms;
                !known_dead && begun && self.expires_at > now.ms
            }
        }
    }

    /// Whether a turn that is open under `epoch` runs.
    #[must_use]
    pub fn runs(&self, epoch: i64, now: Now) -> bool {
        self.epoch == epoch && self.is_live(now)
    }

    /// Whether this ledger may write under `epoch`. The lease may have expired: as long as no other ledger has taken over the
    /// session, it is the only writer.
    #[must_use]
    pub fn may_write(&self, epoch: i64) -> bool {
        self.epoch == epoch && matches!(self.holder, Holder::Own { .. })
    }

    /// Whether this ledger may open the next turn under the same epoch. `idle` is the epoch under which its last turn of the
    /// session was committed; a turn without a commit is open, and leaves no epoch that may be used again.
    #[must_use]
    pub fn continues(&self, idle: Option<i64>) -> bool {
        idle.is_some_and(|epoch| self.may_write(epoch))
    }

    /// Whether a turn may begin under it without a renewal: the next heartbeats come before its end, even if one fails.
    #[must_use]
    pub fn is_fresh(&self, now: Now, lease_ms: i64) -> bool {
        self.expires_at.saturating_sub(now.ms) > lease_ms / 6 * 5
    }

    /// Whether a write must renew it: half of its time has passed.
    #[must_use]
    pub fn is_due(&self, now: Now, lease_ms: i64) -> bool {
        self.expires_at.saturating_sub(now.ms) < lease_ms / 2
    }
}

/// The expiry of a lease that is taken or renewed now.
#[must_use]
pub fn ends_at(now: Now, lease_ms: i64) -> i64 {
    now.ms.saturating_add(lease_ms)
}

/// The position of a ledger in the queue for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuePosition {
    /// It may begin when no turn runs. The lease is its own entry, if it has one.
    First(Option<Lease>),
    /// Another ledger goes first. The lease is its own entry, if it has one.
    Behind(Option<Lease>),
}

/// The position of this ledger among those that wait for a session, in their order. An entry has the holder and the times of a
/// lease, and counts as long as a lease with them is live: a process that ended or hangs delays nobody for longer.
#[must_use]
pub fn queue_position(entries: &[Lease], now: Now) -> QueuePosition {
    let is_own = |entry: &&Lease| matches!(entry.holder, Holder::Own { .. });
    let own = entries.iter().find(is_own).copied();
    let mut earlier = entries.iter().take_while(|entry| !is_own(entry));
    if earlier.any(|entry| entry.is_live(now)) {
        QueuePosition::Behind(own)
    } else {
        QueuePosition::First(own)
    }
}
