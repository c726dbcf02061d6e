//! The rows of `schedules`: each due time is taken once. It must never compute one.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::lease::claim::Claim;
use crate::queue::enqueue;
use crate::sqlite::checksum::{insert_all, set};
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{Enqueued, Firing, QueueLimits, StoredSchedule};

/// Of those that are due, so many are read at once; the others are when these have been taken.
const MOST: u32 = 100;

struct ScheduleColumns {
    id: String,
    spec_json: String,
    item_json: String,
    next_at: Option<i64>,
    last_at: Option<i64>,
    created_at: i64,
}

columns!(ScheduleColumns { id, spec_json, item_json, next_at, last_at, created_at });

fn schedules_where(condition: &str) -> String {
    format!("SELECT {} FROM schedules {condition}", list::<ScheduleColumns>())
}

pub(crate) static OF_ID: LazyLock<String> = LazyLock::new(|| schedules_where("WHERE id = ?1"));
static ALL: LazyLock<String> = LazyLock::new(|| schedules_where("ORDER BY id"));
pub(crate) static DUE: LazyLock<String> =
    LazyLock::new(|| schedules_where("WHERE next_at <= ?1 ORDER BY next_at, id LIMIT ?2"));
pub(crate) const NEXT: &str = "SELECT min(next_at) FROM schedules WHERE next_at > ?1";

fn read(
    connection: &Connection,
    select: &str,
    params: impl rusqlite::Params,
) -> Stored<Vec<StoredSchedule>> {
    let rows: Vec<ScheduleColumns> = sql::all(connection, select, params, "read the schedules")?;
    let stored = |row: ScheduleColumns| StoredSchedule {
        id: row.id,
        spec: row.spec_json,
        item: row.item_json,
        next_at: row.next_at,
        last_at: row.last_at,
        created_at: row.created_at,
    };
    Ok(rows.into_iter().map(stored).collect())
}

/// All schedules.
pub(crate) fn all(connection: &Connection) -> Stored<Vec<StoredSchedule>> {
    read(connection, &ALL, ())
}

/// Those that are due, and the next due time of the others.
pub(crate) fn due(
    connection: &Connection,
    claim: &Claim,
) -> Stored<(Vec<StoredSchedule>, Option<i64>)> {
    let now = claim.clock.now_ms();
    let due = read(connection, &DUE, (now, MOST))?;
    let next: Option<i64> = sql::one(connection, NEXT, (now,), "read the schedules")?;
    Ok((due, next))
}

static ADD: LazyLock<String> = LazyLock::new(|| insert_all::<ScheduleColumns>("schedules"));

/// Defines a schedule. One with the same definition stays as it is.
pub(crate) fn put(
    connection: &Connection,
    claim: &Claim,
    (id, spec, item): (&str, &str, &str),
    next_at: Option<i64>,
) -> Stored<StoredSchedule> {
    crate::sessions::moved::refuse(connection)?;
    let former = read(connection, &OF_ID, (id,))?.pop();
    if let Some(former) = former {
        if former.spec == spec && former.item == item {
            return Ok(former);
        }
        remove(connection, id)?;
    }
    let row = ScheduleColumns {
        id: id.to_owned(),
        spec_json: spec.to_owned(),
        item_json: item.to_owned(),
        next_at,
        last_at: None,
        created_at: claim.clock.now_ms(),
    };
    sql::insert(connection, &ADD, &row, format_args!("write schedule `{id}`"))?;
    Ok(StoredSchedule {
        id: row.id,
        spec: row.spec_json,
        item: row.item_json,
        next_at,
        last_at: None,
        created_at: row.created_at,
    })
}

/// Removes a schedule. False where there is none.
pub(crate) fn remove(connection: &Connection, id: &str) -> Stored<bool> {
    let doing = format_args!("remove schedule `{id}`");
    Ok(sql::exec(connection, "DELETE FROM schedules WHERE id = ?1", (id,), doing)? > 0)
}

static TAKE: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("next_at", "?3"), ("last_at", "coalesce(?4, last_at)")]);
    format!("UPDATE schedules SET {change} WHERE id = ?1 AND next_at = ?2")
});

/// Takes a due time, and queues its message.
pub(crate) fn fire(
    connection: &Connection,
    claim: &Claim,
    firing: &Firing,
    limits: QueueLimits,
) -> Stored<Option<Enqueued>> {
    let Firing { id, due, next_at, message } = firing;
    let last_at = message.as_ref().map(|(_, at)| *at);
    let doing = format_args!("take a time of schedule `{id}`");
    if sql::exec(connection, &TAKE, (id, due, next_at, last_at), doing)? == 0 {
        return Ok(None);
    }
    match message {
        None => Ok(None),
        Some((item, _)) => enqueue::enqueue(connection, claim, item, limits).map(Some),
    }
}
