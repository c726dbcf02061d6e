//! Leases of sessions: who may write a session's running turn, by an epoch that only grows (docs/rules/sessions-and-ledger.md#lease).
//!
//! Every write of a running turn is checked here first, in its own transaction. It must never let an epoch write that is not
//! the newest, and never take a lease from a process that may be alive.

use std::sync::{Arc, LazyLock};

use rusqlite::{Connection, params_from_iter};

use crate::lease::held::Held;
use crate::lease::owner::Owner;
use crate::sqlite::checksum::{insert_all, set};
use crate::sqlite::columns::{columns, list, values};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use base::clock::Clock;
use model::{RunProcess, StorageError, StorageErrorKind};
use turn::lease::{Holder, Lease, Now, ends_at};

/// What a job of the writer needs for leases: the owner, the clock and the duration.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) owner: Arc<Owner>,
    pub(crate) held: Arc<Held>,
    pub(crate) clock: Clock,
    /// How long a lease lasts without a heartbeat, in milliseconds.
    pub(crate) lease_ms: i64,
}

/// A row of `session_leases`.
struct LeaseColumns<'r> {
    session_label: &'r str,
    epoch: i64,
    owner: Option<Owner>,
    expires_at: Option<i64>,
    heartbeat_at: Option<i64>,
}

columns!(for<'r> LeaseColumns<'r> {
    session_label,
    epoch,
    owner: Option<Owner>,
    expires_at,
    heartbeat_at,
});

/// The part of a lease that a write of its turn checks.
pub(crate) struct LeaseRow {
    epoch: i64,
    owner: Option<String>,
    expires_at: Option<i64>,
}

columns!(LeaseRow { epoch, owner, expires_at });

static READ: LazyLock<String> = LazyLock::new(|| {
    let columns = list::<LeaseColumns<'_>>();
    format!("SELECT {columns} FROM session_leases WHERE session_label = ?1")
});
static TAKE: LazyLock<String> = LazyLock::new(|| {
    let add = insert_all::<LeaseColumns<'_>>("session_leases");
    let change = set(&[
        ("epoch", "epoch + 1"),
        ("owner", "excluded.owner"),
        ("pid", "excluded.pid"),
        ("pid_started", "excluded.pid_started"),
        ("pid_space", "excluded.pid_space"),
        ("boot_id", "excluded.boot_id"),
    ]);
    // The checksum leaves out the times, which every heartbeat changes.
    format!(
        "{add} ON CONFLICT (session_label) DO UPDATE SET {change}, expires_at = excluded.expires_at,
           heartbeat_at = excluded.heartbeat_at
         RETURNING epoch"
    )
});
static RELEASE: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("owner", "NULL")]);
    format!(
        "UPDATE session_leases SET {change} WHERE session_label = ?1 AND epoch = ?2 AND owner = ?3"
    )
});

impl Claim {
    pub(crate) fn now(&self) -> Now {
        // If the shared clock is the wall clock, it can be set.
        Now { ms: self.clock.shared_ms(), can_step: cfg!(not(unix)) }
    }

    /// Whether a turn that is open under `epoch` runs somewhere.
    pub(crate) fn runs(&self, connection: &Connection, label: &str, epoch: i64) -> Stored<bool> {
        Ok(self.read(connection, label)?.is_some_and(|lease| lease.runs(epoch, self.now())))
    }

    /// The process that holds the lease of a session.
    pub(crate) fn process_of(
        &self,
        connection: &Connection,
        label: &str,
    ) -> Stored<Option<RunProcess>> {
        let doing = format_args!("read the lease of session `{label}`");
        let holder = sql::first(connection, &READ, (label,), doing, |fields| {
            Ok(fields.next::<LeaseColumns<'_>>()?.owner)
        })?;
        let process =
            |owner: Owner| RunProcess { pid: owner.pid, current: owner.id == self.owner.id };
        Ok(holder.flatten().map(process))
    }

    /// The lease of a session as this process sees it.
    pub(crate) fn read(&self, connection: &Connection, label: &str) -> Stored<Option<Lease>> {
        let doing = format_args!("read the lease of session `{label}`");
        sql::first(connection, &READ, (label,), doing, |fields| {
            let row: LeaseColumns<'_> = fields.next()?;
            let holder = match row.owner {
                None => Holder::Released,
                Some(owner) if owner.id == self.owner.id => {
                    Holder::Own { running: self.held.epoch(label) }
                }
                Some(owner) => Holder::Other { known_dead: self.owner.knows_dead(&owner) },
            };
            Ok(Lease {
                epoch: row.epoch,
                holder,
                expires_at: row.expires_at.unwrap_or_default(),
                heartbeat_at: row.heartbeat_at.unwrap_or_default(),
            })
        })
    }

    /// Takes the lease of a session in which no turn runs, under the next epoch.
    pub(crate) fn take(&self, connection: &Connection, label: &str) -> Stored<i64> {
        let now = self.now();
        let row = LeaseColumns {
            session_label: label,
            epoch: 1,
            owner: Some(Owner::clone(&self.owner)),
            expires_at: Some(ends_at(now, self.lease_ms)),
            heartbeat_at: Some(now.ms),
        };
        let doing = format_args!("lease session `{label}`");
        sql::one(connection, &TAKE, params_from_iter(values(&row)), doing)
    }

    /// Refuses a writer whose lease another process has taken; renews a lease that has used up half its time.
    ///
    /// # Errors
    /// `stale_writer`.
    pub(crate) fn check(
        &self,
        connection: &Connection,
        label: &str,
        (row, epoch): (&LeaseRow, i64),
    ) -> Stored<()> {
        let holder = match &row.owner {
            None => Holder::Released,
            Some(owner) if *owner == self.owner.id => Holder::Own { running: Some(epoch) },
            Some(_) => Holder::Other { known_dead: false },
        };
        let expires_at = row.expires_at.unwrap_or_default();
        let lease = Lease { epoch: row.epoch, holder, expires_at, heartbeat_at: expires_at };
        if !lease.may_write(epoch) {
            return Err(stale_writer(label));
        }
        if lease.is_due(self.now(), self.lease_ms) {
            self.renew(connection, label, epoch)?;
        }
        Ok(())
    }

    /// Continues with the lease that the last turn of the session has left, for another turn.
    pub(crate) fn again(&self, connection: &Connection, label: &str, lease: &Lease) -> Stored<()> {
        if lease.is_fresh(self.now(), self.lease_ms) {
            return Ok(());
        }
        self.renew(connection, label, lease.epoch)
    }

    /// Extends the lease. A lease of another process stays as it is.
    pub(crate) fn renew(&self, connection: &Connection, label: &str, epoch: i64) -> Stored<()> {
        let now = self.now();
        let update = "UPDATE session_leases SET expires_at = ?4, heartbeat_at = ?5
                      WHERE session_label = ?1 AND epoch = ?2 AND owner = ?3";
        let row = (label, epoch, &self.owner.id, ends_at(now, self.lease_ms), now.ms);
        let doing = format_args!("renew the lease of session `{label}`");
        sql::exec(connection, update, row, doing).map(drop)
    }

    /// Frees the session at once. A lease of another process stays as it is.
    pub(crate) fn release(&self, connection: &Connection, label: &str, epoch: i64) -> Stored<()> {
        let doing = format_args!("release the lease of session `{label}`");
        sql::exec(connection, &RELEASE, (label, epoch, &self.owner.id), doing).map(drop)
    }
}

/// The error for a writer that no longer runs the session.
pub(crate) fn stale_writer(label: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::StaleWriter,
        format!(
            "another process has taken over session `{label}`, and this run's results are not written; read the session \
             again"
        ),
    )
}
