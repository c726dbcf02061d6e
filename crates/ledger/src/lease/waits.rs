//! The rows of `session_waits`: the open ledgers that wait for a session, first come first served.
//!
//! It must never delete the entry of another ledger that may be alive.

use std::sync::LazyLock;

use rusqlite::{Connection, params_from_iter};

use crate::lease::claim::Claim;
use crate::lease::owner::Owner;
use crate::sqlite::checksum::{insert_all, set};
use crate::sqlite::columns::{columns, list, values};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use turn::lease::{Holder, Lease, QueuePosition, ends_at, queue_position};

struct Wait {
    session_label: String,
    owner: Option<Owner>,
    expires_at: i64,
    heartbeat_at: i64,
}

columns!(Wait { session_label, owner: Option<Owner>, expires_at, heartbeat_at });

pub(crate) static OF_SESSION: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM session_waits WHERE session_label = ?1 ORDER BY id", list::<Wait>())
});
static ADD: LazyLock<String> = LazyLock::new(|| insert_all::<Wait>("session_waits"));
static RENEW: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("expires_at", "?3"), ("heartbeat_at", "?4")]);
    format!("UPDATE session_waits SET {change} WHERE session_label = ?1 AND owner = ?2")
});

/// The position of this ledger among those that wait for the session.
pub(crate) fn of_session(
    connection: &Connection,
    claim: &Claim,
    label: &str,
) -> Stored<QueuePosition> {
    let doing = format_args!("read the queue for session `{label}`");
    let entries = sql::map(connection, &OF_SESSION, (label,), doing, |fields| {
        let row: Wait = fields.next()?;
        let holder = match row.owner {
            None => Holder::Released,
            Some(owner) if owner.id == claim.owner.id => Holder::Own { running: None },
            Some(owner) => Holder::Other { known_dead: claim.owner.knows_dead(&owner) },
        };
        Ok(Lease { epoch: 0, holder, expires_at: row.expires_at, heartbeat_at: row.heartbeat_at })
    })?;
    Ok(queue_position(&entries, claim.now()))
}

/// Adds this ledger to the queue, or renews its entry.
pub(crate) fn wait(
    connection: &Connection,
    claim: &Claim,
    label: &str,
    own: Option<Lease>,
) -> Stored<()> {
    let doing = format_args!("wait for session `{label}`");
    let now = claim.now();
    let ends = ends_at(now, claim.lease_ms);
    match own {
        Some(entry) if !entry.is_due(now, claim.lease_ms) => Ok(()),
        Some(_) => {
            let row = (label, &claim.owner.id, ends, now.ms);
            sql::exec(connection, &RENEW, row, doing).map(drop)
        }
        None => {
            let over = "DELETE FROM session_waits WHERE expires_at <= ?1 OR heartbeat_at > ?1";
            sql::exec(connection, over, (now.ms,), doing)?;
            let row = Wait {
                session_label: label.to_owned(),
                owner: Some(Owner::clone(&claim.owner)),
                expires_at: ends,
                heartbeat_at: now.ms,
            };
            sql::exec(connection, &ADD, params_from_iter(values(&row)), doing).map(drop)
        }
    }
}

/// Removes this ledger from the queue.
pub(crate) fn leave(connection: &Connection, claim: &Claim, label: &str) -> Stored<()> {
    let delete = "DELETE FROM session_waits WHERE session_label = ?1 AND owner = ?2";
    let doing = format_args!("leave the queue for session `{label}`");
    sql::exec(connection, delete, (label, &claim.owner.id), doing).map(drop)
}
