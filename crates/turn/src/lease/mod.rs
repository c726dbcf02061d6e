//! Who may run a session: the rules of leases by epoch, expiry and clock (docs/rules/sessions-and-ledger.md#lease).
//!
//! A lease is a row per session: its epoch only grows, its owner is an open ledger of a process. The backend reads the row,
//! applies these rules, and writes in the same transaction. They must never let an epoch write that is not the newest, and
//! never take a lease from a process that may be alive.

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
    /// Whether the session runs under it: no other ledger may take it now.
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

    /// Whether a turn that was opened under `epoch` is still running.
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
