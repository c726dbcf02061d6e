//! The rows of `deliveries`: their columns, and the statements that read and change one. It must never decide a change.

use std::sync::LazyLock;

use rusqlite::{Connection, Params};

use crate::lease::claim::Claim;
use crate::lease::owner::Owner;
use crate::sqlite::checksum::{insert_all, set};
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::{DeliveryStatus, StoredDelivery};
use turn::lease::{Holder, Lease, ends_at};

struct DeliveryColumns {
    turn_id: String,
    session_label: String,
    target_json: String,
    status: String,
    tries: u32,
    failures: u32,
    not_before: i64,
    error: Option<String>,
    created_at: i64,
    delivered_at: Option<i64>,
    epoch: i64,
    owner: Option<Owner>,
    expires_at: Option<i64>,
    heartbeat_at: Option<i64>,
}

columns!(DeliveryColumns {
    turn_id,
    session_label,
    target_json,
    status,
    tries,
    failures,
    not_before,
    error,
    created_at,
    delivered_at,
    epoch,
    owner: Option<Owner>,
    expires_at,
    heartbeat_at,
});

fn deliveries_where(condition: &str) -> String {
    format!("SELECT {} FROM deliveries WHERE {condition}", list::<DeliveryColumns>())
}

/// The next session after `?1` whose deliveries wait.
pub(crate) const NEXT_SESSION: &str =
    "SELECT min(session_label) FROM deliveries WHERE session_label > ?1 AND status = 'pending'";
/// The oldest delivery of a session that waits: the others follow it.
pub(crate) static OLDEST: LazyLock<String> = LazyLock::new(|| {
    deliveries_where("session_label = ?1 AND status = 'pending' ORDER BY n LIMIT 1")
});
pub(crate) static OF_TURN: LazyLock<String> = LazyLock::new(|| deliveries_where("turn_id = ?1"));
/// A list: at most `?2` rows after row `?1` with status `?3`.
pub(crate) static OF_STATUS: LazyLock<String> =
    LazyLock::new(|| deliveries_where("status = ?3 AND n > ?1 ORDER BY n LIMIT ?2"));
/// The same of session `?4`.
pub(crate) static OF_SESSION: LazyLock<String> = LazyLock::new(|| {
    deliveries_where("session_label = ?4 AND status = ?3 AND n > ?1 ORDER BY n LIMIT ?2")
});
pub(crate) const NUMBER: &str = "SELECT n FROM deliveries WHERE turn_id = ?1";

static ADD: LazyLock<String> = LazyLock::new(|| insert_all::<DeliveryColumns>("deliveries"));

const REMOVE: &str = "DELETE FROM deliveries WHERE turn_id = ?1";

/// Adds the delivery of a turn that ends.
pub(crate) fn add(
    connection: &Connection,
    turn_id: &str,
    label: &str,
    target: String,
    now: i64,
) -> Stored<()> {
    let row = DeliveryColumns {
        turn_id: turn_id.to_owned(),
        session_label: label.to_owned(),
        target_json: target,
        status: DeliveryStatus::Pending.as_str().to_owned(),
        tries: 0,
        failures: 0,
        not_before: now,
        error: None,
        created_at: now,
        delivered_at: None,
        epoch: 0,
        owner: None,
        expires_at: None,
        heartbeat_at: None,
    };
    sql::insert(connection, &ADD, &row, format_args!("write the delivery of turn `{turn_id}`"))
}

/// Removes the delivery of a turn.
pub(crate) fn remove(connection: &Connection, turn_id: &str) -> Stored<()> {
    let doing = format_args!("remove the delivery of turn `{turn_id}`");
    sql::exec(connection, REMOVE, (turn_id,), doing).map(drop)
}

/// A delivery, and whether a living process has it.
pub(crate) struct Row {
    pub(crate) stored: StoredDelivery,
    pub(crate) is_claimed: bool,
}

/// The rows of a statement.
pub(crate) fn read(
    connection: &Connection,
    claim: &Claim,
    select: &str,
    params: impl Params,
) -> Stored<Vec<Row>> {
    let rows: Vec<DeliveryColumns> = sql::all(connection, select, params, "read the outbox")?;
    rows.into_iter().map(|row| row_of(row, claim)).collect()
}

fn row_of(row: DeliveryColumns, claim: &Claim) -> Stored<Row> {
    let holder = match &row.owner {
        None => Holder::Released,
        Some(owner) => Holder::Other { known_dead: claim.owner.knows_dead(owner) },
    };
    let lease = Lease {
        epoch: row.epoch,
        holder,
        expires_at: row.expires_at.unwrap_or_default(),
        heartbeat_at: row.heartbeat_at.unwrap_or_default(),
    };
    let unknown =
        || damaged(&format!("the delivery of turn `{}` is not as it was written", row.turn_id));
    Ok(Row {
        is_claimed: lease.is_live(claim.now()),
        stored: StoredDelivery {
            status: DeliveryStatus::of_name(&row.status).ok_or_else(unknown)?,
            turn_id: row.turn_id,
            session_label: row.session_label,
            target: row.target_json,
            tries: row.tries,
            failures: row.failures,
            not_before: row.not_before,
            error: row.error,
            created_at: row.created_at,
            delivered_at: row.delivered_at,
            epoch: row.epoch,
        },
    })
}

static TAKE: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[
        ("tries", "tries + 1"),
        ("epoch", "epoch + 1"),
        ("owner", "?2"),
        ("pid", "?3"),
        ("pid_started", "?4"),
        ("pid_space", "?5"),
        ("boot_id", "?6"),
    ]);
    // The checksum leaves out the times, which every heartbeat changes.
    format!("UPDATE deliveries SET {change}, expires_at = ?7, heartbeat_at = ?8 WHERE turn_id = ?1")
});

/// This process has the delivery of a turn from now on.
pub(crate) fn take(connection: &Connection, claim: &Claim, turn_id: &str) -> Stored<()> {
    let doing = format_args!("claim the delivery of turn `{turn_id}`");
    let Owner { id, pid, pid_started, pid_space, boot_id } = claim.owner.as_ref();
    let now = claim.now();
    let ends = ends_at(now, claim.lease_ms);
    let row = (turn_id, id, pid, pid_started, pid_space, boot_id, ends, now.ms);
    sql::exec(connection, &TAKE, row, doing).map(drop)
}

const RENEW: &str = "UPDATE deliveries SET expires_at = ?4, heartbeat_at = ?5
     WHERE turn_id = ?1 AND epoch = ?2 AND owner = ?3";

/// This process still has the delivery of a turn.
pub(crate) fn renew(
    connection: &Connection,
    claim: &Claim,
    (turn_id, epoch): (&str, i64),
) -> Stored<()> {
    let doing = format_args!("renew the claim of turn `{turn_id}`");
    let now = claim.now();
    let row = (turn_id, epoch, &claim.owner.id, ends_at(now, claim.lease_ms), now.ms);
    sql::exec(connection, RENEW, row, doing).map(drop)
}

static CHANGE: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[
        ("status", "?2"),
        ("failures", "?3"),
        ("not_before", "?4"),
        ("error", "?5"),
        ("delivered_at", "?6"),
        ("owner", "NULL"),
        ("pid", "NULL"),
        ("pid_started", "NULL"),
        ("pid_space", "NULL"),
        ("boot_id", "NULL"),
    ]);
    format!("UPDATE deliveries SET {change} WHERE turn_id = ?1")
});

/// Writes what became of a delivery. Nobody has it then.
pub(crate) fn change(connection: &Connection, stored: &StoredDelivery) -> Stored<()> {
    let row = (
        &stored.turn_id,
        stored.status.as_str(),
        stored.failures,
        stored.not_before,
        &stored.error,
        stored.delivered_at,
    );
    let doing = format_args!("end the delivery of turn `{}`", stored.turn_id);
    sql::exec(connection, &CHANGE, row, doing).map(drop)
}
