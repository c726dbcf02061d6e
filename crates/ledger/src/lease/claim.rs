//! Leases of sessions: who may write a session's running turn, by an epoch that only grows (docs/rules/sessions-and-ledger.md#lease).
//!
//! Every write of a running turn is checked here first, in its own transaction. It must never let an epoch write that is
//! not the newest, and never take a lease from a process that may live.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, params_from_iter};

use crate::lease::owner::Owner;
use crate::sqlite::checksum::{insert_all, set};
use crate::sqlite::columns::{columns, list, values};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use base::clock::Clock;
use model::{StorageError, StorageErrorKind};
use turn::lease::{Holder, Lease, Now, ends_at};

/// The leases this process holds, by session: what its heartbeat renews.
pub(crate) type Held = Arc<Mutex<HashMap<String, i64>>>;

/// What a job of the writer needs for leases: who takes them, when, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) owner: Arc<Owner>,
    pub(crate) held: Held,
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
static GIVE_BACK: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("owner", "NULL")]);
    format!(
        "UPDATE session_leases SET {change} WHERE session_label = ?1 AND epoch = ?2 AND owner = ?3"
    )
});

impl Claim {
    fn now(&self) -> Now {
        // Where the shared clock is the wall clock, somebody may set it.
        Now { ms: self.clock.shared_ms(), can_step: cfg!(not(unix)) }
    }

    /// Whether the session is run by somebody: another live process, or a run of this one.
    pub(crate) fn is_busy(&self, connection: &Connection, label: &str) -> Stored<bool> {
        Ok(self.read(connection, label)?.is_some_and(|lease| lease.is_live(self.now())))
    }

    /// Whether a turn that was opened under `epoch` still runs somewhere.
    pub(crate) fn runs(&self, connection: &Connection, label: &str, epoch: i64) -> Stored<bool> {
        Ok(self.read(connection, label)?.is_some_and(|lease| lease.runs(epoch, self.now())))
    }

    /// The lease of a session as this process sees it.
    fn read(&self, connection: &Connection, label: &str) -> Stored<Option<Lease>> {
        let doing = format_args!("read the lease of session `{label}`");
        sql::first(connection, &READ, (label,), doing, |fields| {
            let row: LeaseColumns<'_> = fields.next()?;
            let holder = match row.owner {
                None => Holder::Released,
                Some(owner) if owner.id == self.owner.id => {
                    Holder::Own { running: held(&self.held).get(label).copied() }
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

    /// Takes the lease of a session that is not busy, under the next epoch.
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
    pub(crate) fn check(&self, connection: &Connection, label: &str, epoch: i64) -> Stored<()> {
        let lease = self.read(connection, label)?;
        let Some(lease) = lease.filter(|lease| lease.may_write(epoch)) else {
            return Err(StorageError::new(
                StorageErrorKind::StaleWriter,
                format!(
                    "another process has taken over session `{label}`, and this run's results are not written; read \
                     the session again"
                ),
            ));
        };
        if lease.is_due(self.now(), self.lease_ms) {
            self.renew(connection, label, epoch)?;
        }
        Ok(())
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
    pub(crate) fn give_back(&self, connection: &Connection, label: &str, epoch: i64) -> Stored<()> {
        let doing = format_args!("give session `{label}` back");
        sql::exec(connection, &GIVE_BACK, (label, epoch, &self.owner.id), doing).map(drop)
    }
}

pub(crate) fn held(held: &Held) -> MutexGuard<'_, HashMap<String, i64>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}
