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
struct Lease {
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
    fn now(&self) -> i64 {
        self.clock.shared_ms()
    }

    /// Whether the session is run by somebody: another live process, or a run of this one.
    pub(crate) fn is_busy(&self, connection: &Connection, label: &str) -> Stored<bool> {
        Ok(read(connection, label)?.is_some_and(|lease| self.is_live(label, &lease)))
    }

    /// Whether a turn that was opened under `epoch` still runs somewhere.
    pub(crate) fn runs(&self, connection: &Connection, label: &str, epoch: i64) -> Stored<bool> {
        let lease = read(connection, label)?;
        Ok(lease.is_some_and(|lease| lease.epoch == epoch && self.is_live(label, &lease)))
    }

    fn is_live(&self, label: &str, lease: &Lease) -> bool {
        let Some(owner) = &lease.owner else { return false };
        if owner.id == self.owner.id {
            return held(&self.held).get(label) == Some(&lease.epoch);
        }
        let now = self.now();
        // Where the shared clock may be set, the age of a heartbeat of the future is unknown.
        let begun = cfg!(unix) || lease.heartbeat_at <= now;
        !self.owner.knows_dead(owner) && begun && lease.expires_at > now
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
                        now.saturating_add(self.lease_ms),
                        now,
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
        let lease = read(connection, label)?;
        let own = lease.filter(|lease| {
            lease.epoch == epoch
                && lease.owner.as_ref().is_some_and(|owner| owner.id == self.owner.id)
        });
        let Some(lease) = own else {
            return Err(StorageError::new(
                StorageErrorKind::StaleWriter,
                format!(
                    "another process has taken over session `{label}`, and what this run has to say is not written; \
                     read the session again"
                ),
            ));
        };
        if lease.expires_at.saturating_sub(self.now()) < self.lease_ms / 2 {
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
                let until = now.saturating_add(self.lease_ms);
                statement.execute(params![label, epoch, self.owner.id, until, now])
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

fn read(connection: &Connection, label: &str) -> Stored<Option<Lease>> {
    connection
        .prepare_cached(
            "SELECT epoch, expires_at, owner, pid, pid_started, pid_space, boot_id, heartbeat_at
             FROM session_leases WHERE session_label = ?1",
        )
        .and_then(|mut statement| {
            statement
                .query_row((label,), |row| {
                    Ok(Lease {
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
