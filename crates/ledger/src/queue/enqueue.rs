//! A new message: its target, its event, and its position among those that wait, in one transaction.
//!
//! It must never write a part of it: every check comes before the first row.

use std::sync::LazyLock;

use broker::queue::{Admission, Counted, EVENTS_MS, admit, event_source, is_debounced, new_row};
use rusqlite::Connection;

use crate::journal_rows::running::running_turn;
use crate::lease::claim::Claim;
use crate::queue::{dispatch_end, item_rows};
use crate::sessions::{aliases, fork};
use crate::sqlite::checksum::{insert, numbered};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{DropPolicy, Enqueued, FailedReason, NewItem, QueueLimits, QueueTarget};

pub(crate) const EVENT: &str =
    "SELECT e.item_id, coalesce(i.session_label, '') FROM queue_events e LEFT JOIN queue_items i ON i.id = e.item_id
     WHERE e.channel = ?1 AND e.account = ?2 AND e.event_id = ?3";
/// The session in which a turn ran, if it is still its head: no other session with that head is older.
pub(crate) const OWN_SESSION: &str =
    "SELECT s.label FROM turns t JOIN sessions s ON s.label = t.session_label
     WHERE t.id = ?1 AND s.thread_id = t.id AND s.status = 'active'";
/// Another session whose head is a turn: a fork without a turn of its own. All sessions are read, because an index would cost
/// every turn a write, and threads are rarely continued twice.
const OF_HEAD: &str =
    "SELECT label FROM sessions WHERE thread_id = ?1 AND status = 'active' AND opening = 0
     ORDER BY created_at, label LIMIT 1";
static ADD_EVENT: LazyLock<String> = LazyLock::new(|| {
    insert("queue_events", &numbered("channel, account, event_id, item_id, created_at"))
});

/// Queues a message.
///
/// # Errors
/// `unknown_turn` for a thread that does not exist.
pub(crate) fn enqueue(
    connection: &Connection,
    claim: &Claim,
    new: &NewItem,
    limits: QueueLimits,
) -> Stored<Enqueued> {
    crate::sessions::moved::refuse(connection)?;
    let now = claim.clock.now_ms();
    if let Some((item_id, session_label)) = known_event(connection, new, now)? {
        return Ok(Enqueued::Duplicate { item_id, session_label });
    }
    let (session_label, is_fork) = session_of(connection, claim, &new.to)?;
    let is_busy = is_debounced(&new.item)
        && (item_rows::waits(connection, &session_label)?
            || running_turn(connection, claim, &session_label)?.is_some());
    let over = match Counted::of(&new.item, limits) {
        Some(counted) => item_rows::over(connection, &session_label, counted)?,
        None => Vec::new(),
    };
    let admission = admit(&new.item, over, is_busy, limits, now);
    if let Admission::Queued { dropped, .. } = &admission {
        let is_summarized = limits.drop == DropPolicy::Summarize;
        for id in dropped {
            let why = (FailedReason::Dropped, None);
            dispatch_end::fail(connection, id, why, is_summarized, &claim.clock)?;
        }
    }
    let is_admitted = matches!(admission, Admission::Queued { .. });
    let (row, enqueued) = new_row(new, (session_label, is_fork), admission, now);
    item_rows::add(connection, row)?;
    // Whoever sends a rejected event again means it: it is no duplicate.
    if let Some(event_id) = new.event_id.as_ref().filter(|_| is_admitted) {
        let (channel, account) = event_source(new);
        let event = (channel, account, event_id, &new.item.id, now);
        sql::exec(connection, &ADD_EVENT, event, "remember an event")?;
    }
    Ok(enqueued)
}

/// The first message of the same event, and its session.
fn known_event(
    connection: &Connection,
    new: &NewItem,
    now: i64,
) -> Stored<Option<(String, String)>> {
    let Some(event_id) = &new.event_id else { return Ok(None) };
    let doing = "look an event up";
    let old = "DELETE FROM queue_events WHERE created_at <= ?1";
    sql::exec(connection, old, (now.saturating_sub(EVENTS_MS),), doing)?;
    let (channel, account) = event_source(new);
    sql::optional(connection, EVENT, (channel, account, event_id), doing)
}

/// The session of a new message, and whether it was made for it.
fn session_of(connection: &Connection, claim: &Claim, to: &QueueTarget) -> Stored<(String, bool)> {
    match to {
        QueueTarget::Session(label) => Ok((aliases::resolve(connection, label)?, false)),
        QueueTarget::Thread { turn_id, fork: label } => {
            let doing = format_args!("find the session of turn `{turn_id}`");
            for select in [OWN_SESSION, OF_HEAD] {
                if let Some(of_head) = sql::optional(connection, select, (turn_id,), doing)? {
                    return Ok((of_head, false));
                }
            }
            fork::fork(connection, turn_id, label, None, &claim.clock)?;
            Ok((label.clone(), true))
        }
    }
}
