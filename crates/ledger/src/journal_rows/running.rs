//! Who runs a session: a turn is under way in it while its lease is live and a turn is open under the lease's epoch.
//!
//! A lease without an open turn is free for every ledger. It must never let two ledgers run a session, nor a turn write after
//! its end.

use rusqlite::Connection;

use crate::journal_rows::approval_rows;
use crate::journal_rows::run_rows::{self, RunRow};
use crate::lease::claim::{Claim, stale_writer};
use crate::lease::held::RunningTurn;
use crate::lease::waits;
use crate::sqlite::error::Stored;
use model::TurnLease;
use turn::lease::{Holder, Lease, QueuePosition};

/// The turn that runs in the session, in this process or in another one.
pub(crate) fn running_turn(
    connection: &Connection,
    claim: &Claim,
    label: &str,
) -> Stored<Option<RunningTurn>> {
    match claim.read(connection, label)?.filter(|lease| lease.is_live(claim.now())) {
        Some(lease) => run_rows::open_under(connection, label, lease.epoch),
        None => Ok(None),
    }
}

/// A session in which this ledger may begin a turn.
pub(crate) struct FreeSession {
    /// The lease that the last turn of this ledger has left, if no other ledger has taken it since.
    left: Option<Lease>,
    /// Whether this ledger is in the queue for the session.
    waited: bool,
}

/// Whether this ledger may begin a turn in a session.
pub(crate) enum Entrance {
    Free(FreeSession),
    /// A turn runs in it, or another ledger goes first.
    Busy,
    /// This turn waits in it for an approval.
    Parked(String),
}

/// The session, if no turn runs in it and no other ledger waits for it before this one. Otherwise this ledger waits from now
/// on, unless it runs the session itself, or a turn is parked in it.
pub(crate) fn enter(connection: &Connection, claim: &Claim, label: &str) -> Stored<Entrance> {
    let lease = claim.read(connection, label)?;
    // A turn parks only by releasing its lease, so other sessions are not looked up.
    if let Some(Lease { holder: Holder::Released, .. }) = lease
        && let Some(turn_id) = approval_rows::parked_turn(connection, label)?
    {
        return Ok(Entrance::Parked(turn_id));
    }
    let runs = match lease.filter(|lease| lease.is_live(claim.now())) {
        Some(Lease { holder: Holder::Own { .. }, .. }) => return Ok(Entrance::Busy),
        Some(lease) => run_rows::open_under(connection, label, lease.epoch)?.is_some(),
        None => false,
    };
    match waits::of_session(connection, claim, label)? {
        QueuePosition::First(own) if !runs => {
            let left = lease.filter(|lease| lease.continues(claim.held.idle(label)));
            Ok(Entrance::Free(FreeSession { left, waited: own.is_some() }))
        }
        QueuePosition::First(own) | QueuePosition::Behind(own) => {
            waits::wait(connection, claim, label, own)?;
            Ok(Entrance::Busy)
        }
    }
}

impl FreeSession {
    /// Leases the session for a turn that begins in the same transaction. Returns the epoch.
    pub(crate) fn lease(self, connection: &Connection, claim: &Claim, label: &str) -> Stored<i64> {
        if self.waited {
            waits::leave(connection, claim, label)?;
        }
        match self.left {
            Some(lease) => {
                claim.again(connection, label, &lease)?;
                Ok(lease.epoch)
            }
            None => claim.take(connection, label),
        }
    }
}

/// The run of a turn that this ledger may write.
///
/// # Errors
/// `stale_writer` if another ledger has taken the session over, or the turn is not open under this epoch: several turns may
/// run under one, one after the other.
pub(crate) fn leased_run(
    connection: &Connection,
    claim: &Claim,
    label: &str,
    lease: &TurnLease,
) -> Stored<RunRow> {
    let found = run_rows::with_lease(connection, &lease.turn_id)?
        .filter(|(run, _)| run.is_open() && run.epoch == Some(lease.epoch));
    let Some((run, row)) = found else { return Err(stale_writer(label)) };
    claim.check(connection, label, (&row, lease.epoch))?;
    Ok(run)
}
