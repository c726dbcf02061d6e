//! Who may run a session: the rules of leases by epoch, expiry and clock (docs/rules/sessions-and-ledger.md#lease).
//!
//! A lease is a row per session: its epoch only grows, its owner is an open ledger of a process. The backend reads the row,
//! asks here, and writes in the same transaction. It must never let an epoch write that is not the newest, and never take a
//! lease from a process that may live.

#[cfg(test)]
mod tests;

/// Who holds a lease, as the one sees it who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// It was given back.
    Nobody,
    /// The open ledger that asks.
    Own {
        /// The epoch under which it runs the session now.
        running: Option<i64>,
    },
    /// Another one.
    Other {
        /// Whether its process is known to be gone.
        known_dead: bool,
    },
}

/// A lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Its number.
    pub epoch: i64,
    /// Who holds it.
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
    /// Whether somebody may set it back, as the wall clock: then the age of a heartbeat of the future is unknown.
    pub can_step: bool,
}

impl Lease {
    /// Whether the session is run under it: nobody else may take it now.
    #[must_use]
    pub fn is_live(&self, now: Now) -> bool {
        match self.holder {
            Holder::Nobody => false,
            Holder::Own { running } => running == Some(self.epoch),
            Holder::Other { known_dead } => {
                let begun = !now.can_step || self.heartbeat_at <= now.ms;
                !known_dead && begun && self.expires_at > now.ms
            }
        }
    }

    /// Whether a turn that was opened under `epoch` still runs.
    #[must_use]
    pub fn runs(&self, epoch: i64, now: Now) -> bool {
        self.epoch == epoch && self.is_live(now)
    }

    /// Whether the one who asks may write under `epoch`. Its time need not be left: as long as nobody has taken the
    /// session over, it is the only one.
    #[must_use]
    pub fn may_write(&self, epoch: i64) -> bool {
        self.epoch == epoch && matches!(self.holder, Holder::Own { .. })
    }

    /// Whether a write has to renew it: half of its time is used up.
    #[must_use]
    pub fn is_due(&self, now: Now, lease_ms: i64) -> bool {
        self.expires_at.saturating_sub(now.ms) < lease_ms / 2
    }
}

/// When a lease that is taken or renewed now ends.
#[must_use]
pub fn ends_at(now: Now, lease_ms: i64) -> i64 {
    now.ms.saturating_add(lease_ms)
}
