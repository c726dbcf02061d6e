//! What a host changes in a queue: offers to a running turn, cancelled and refused messages, suspension.
//!
//! It must never touch a message that a turn has taken.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::queue::dispatch_end;
use crate::queue::item_rows::{self, OF_TURN};
use crate::queue::reads;
use crate::sessions::moved;
use crate::sqlite::checksum::{insert, numbered};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use base::clock::Clock;
use model::{FailedReason, ItemStatus};

/// Offers messages to a running turn. Returns those that still waited.
pub(crate) fn offer(connection: &Connection, ids: &[String], turn_id: &str) -> Stored<Vec<String>> {
    let mut offered = Vec::new();
    for id in ids {
        if item_rows::offer(connection, id, turn_id)? {
            offered.push(id.clone());
        }
    }
    Ok(offered)
}

/// Takes back what a turn was offered and has not taken.
pub(crate) fn withdraw(connection: &Connection, turn_id: &str) -> Stored<()> {
    for stored in item_rows::read(connection, &OF_TURN, (turn_id,))? {
        if stored.status == ItemStatus::Pending {
            item_rows::release(connection, &stored.item.id)?;
        }
    }
    Ok(())
}

/// Cancels all messages of a session that wait.
pub(crate) fn clear(connection: &Connection, label: &str, clock: &Clock) -> Stored<Vec<String>> {
    let mut cancelled = Vec::new();
    for stored in reads::waiting_items(connection, label)? {
        let id = stored.item.id;
        if dispatch_end::fail(connection, &id, (FailedReason::Cancelled, None), false, clock)? {
            cancelled.push(id);
        }
    }
    Ok(cancelled)
}

/// The turn of waiting messages could not begin.
pub(crate) fn refuse(
    connection: &Connection,
    ids: &[String],
    detail: &str,
    clock: &Clock,
) -> Stored<()> {
    ids.iter().try_for_each(|id| {
        let why = (FailedReason::RunFailed, Some(detail));
        dispatch_end::fail(connection, id, why, false, clock).map(drop)
    })
}

static SUSPEND: LazyLock<String> = LazyLock::new(|| {
    let add = insert("queue_suspensions", &numbered("session_label, created_at"));
    format!("{add} ON CONFLICT (session_label) DO NOTHING")
});

/// Suspends a session's queue, or ends that.
pub(crate) fn suspend(
    connection: &Connection,
    label: &str,
    is_suspended: bool,
    now: i64,
) -> Stored<()> {
    moved::refuse(connection)?;
    let doing = format_args!("suspend the queue of session `{label}`");
    let done = if is_suspended {
        sql::exec(connection, &SUSPEND, (label, now), doing)
    } else {
        let delete = "DELETE FROM queue_suspensions WHERE session_label = ?1";
        sql::exec(connection, delete, (label,), doing)
    };
    done.map(drop)
}
