//! Leases of sessions: who may write a session's running turn, told by an epoch that only grows (docs/rules/sessions-and-ledger.md#lease).
//!
//! Every write of a running turn asks here first, in its own transaction. It must never let an epoch write that is not
//! the newest, and never take a lease from a process that may live.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};

use crate::lease::owner::Owner;
use crate::sqlite::checksum::{columns, set};
use crate::sqlite::error::{Stored, sqlite};
use base::clock::Clock;
use model::{StorageError, StorageErrorKind};
use turn::lease::{Holder, Lease, Now, ends_at};

/// The leases this process holds, by session: what its heartbeat renews.
pub(crate) type Held = Arc<Mutex<HashMap<String, i64>>>;

/// What a job of the writer knows of leases: who asks, when, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) owner: Arc<Owner>,
    pub(crate) held: Held,
    pub(crate) clock: Clock,
    /// How long a lease lasts without a heartbeat, in milliseconds.
    pub(crate) lease_ms: i64,
}

/// A lease as its row says.
struct LeaseRow {
    epoch: i64,
    owner: Option<Owner>,
    expires_at: i64,
    heartbeat_at: i64,
}

/// The checksum leaves out the times, which every heartbeat changes.
static TAKE: LazyLock<String> = LazyLock::new(|| {
    let columns = columns("session_leases");
    let change = set(&[
        ("epoch", "epoch + 1"),
        ("owner", "excluded.owner"),
        ("pid", "excluded.pid"),
        ("pid_started", "excluded.pid_started"),
        ("pid_space", "excluded.pid_space"),
        ("boot_id", "excluded.boot_id"),
    ]);
    format!(
        "INSERT INTO session_leases ({columns}, expires_at, heartbeat_at, row_checksum)
         VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, checksum_of('{columns}', ?1, 1, ?2, ?3, ?4, ?5, ?6))
         ON CONFLICT (session_label) DO UPDATE SET {change}, expires_at = excluded.expires_at,
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
        let row = read(connection, label)?;
        Ok(row.is_some_and(|row| self.lease(label, &row).is_live(self.now())))
    }

    /// Whether a turn that was opened under `epoch` still runs somewhere.
    pub(crate) fn runs(&self, connection: &Connection, label: &str, epoch: i64) -> Stored<bool> {
        let row = read(connection, label)?;
        Ok(row.is_some_and(|row| self.lease(label, &row).runs(epoch, self.now())))
    }

    /// The row as this process sees it.
    fn lease(&self, label: &str, row: &LeaseRow) -> Lease {
        let LeaseRow { epoch, owner, expires_at, heartbeat_at } = row;
        let holder = match owner {
            None => Holder::Nobody,
            Some(owner) if owner.id == self.owner.id => {
                Holder::Own { running: held(&self.held).get(label).copied() }
            }
            Some(owner) => Holder::Other { known_dead: self.owner.knows_dead(owner) },
        };
        Lease { epoch: *epoch, holder, expires_at: *expires_at, heartbeat_at: *heartbeat_at }
    }

    /// Takes the lease of a session that is not busy, under the next epoch.
    pub(crate) fn take(&self, connection: &Connection, label: &str) -> Stored<i64> {
        let (owner, now) = (&self.owner, self.now());
        connection
            .prepare_cached(&TAKE)
            .and_then(|mut statement| {
                statement.query_row(
                    params![
                        label,
                        owner.id,
                        owner.pid,
                        owner.pid_started,
                        owner.pid_space,
                        owner.boot_id,
                        ends_at(now, self.lease_ms),
                        now.ms,
                    ],
                    |row| row.get(0),
                )
            })
            .map_err(|error| sqlite(&format!("lease session `{label}`"), &error))
    }

    /// Refuses a writer whose lease is another's by now; renews one that has used up half its time.
    ///
    /// # Errors
    /// `stale_writer`.
    pub(crate) fn check(&self, connection: &Connection, label: &str, epoch: i64) -> Stored<()> {
        let lease = read(connection, label)?.map(|row| self.lease(label, &row));
        let Some(lease) = lease.filter(|lease| lease.may_write(epoch)) else {
            return Err(StorageError::new(
                StorageErrorKind::StaleWriter,
                format!(
                    "another process has taken over session `{label}`, and what this run has to say is not written; \
                     read the session again"
                ),
            ));
        };
        if lease.is_due(self.now(), self.lease_ms) {
            self.renew(connection, label, epoch)?;
        }
        Ok(())
    }

    /// Puts the lease's end off. One that is another's stays so.
    pub(crate) fn renew(&self, connection: &Connection, label: &str, epoch: i64) -> Stored<()> {
        let now = self.now();
        connection
            .prepare_cached(
                "UPDATE session_leases SET expires_at = ?4, heartbeat_at = ?5
                 WHERE session_label = ?1 AND epoch = ?2 AND owner = ?3",
            )
            .and_then(|mut statement| {
                let until = ends_at(now, self.lease_ms);
                statement.execute(params![label, epoch, self.owner.id, until, now.ms])
            })
            .map(drop)
            .map_err(|error| sqlite(&format!("renew the lease of session `{label}`"), &error))
    }

    /// Lets the next one have the session at once. A lease that is another's stays so.
    pub(crate) fn give_back(&self, connection: &Connection, label: &str, epoch: i64) -> Stored<()> {
        connection
            .prepare_cached(&GIVE_BACK)
            .and_then(|mut statement| statement.execute((label, epoch, &self.owner.id)))
            .map(drop)
            .map_err(|error| sqlite(&format!("give session `{label}` back"), &error))
    }
}

pub(crate) fn held(held: &Held) -> MutexGuard<'_, HashMap<String, i64>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(connection: &Connection, label: &str) -> Stored<Option<LeaseRow>> {
    connection
        .prepare_cached(
            "SELECT epoch, expires_at, owner, pid, pid_started, pid_space, boot_id, heartbeat_at
             FROM session_leases WHERE session_label = ?1",
        )
        .and_then(|mut statement| {
            statement
                .query_row((label,), |row| {
                    Ok(LeaseRow {
                        epoch: row.get(0)?,
                        expires_at: row.get::<_, Option<i64>>(1)?.unwrap_or_default(),
                        owner: Owner::of_row(row, 2)?,
                        heartbeat_at: row.get::<_, Option<i64>>(7)?.unwrap_or_default(),
                    })
                })
                .optional()
        })
        .map_err(|error| sqlite(&format!("read the lease of session `{label}`"), &error))
}
