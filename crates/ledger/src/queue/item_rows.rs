//! The rows of `queue_items`: their columns, and the statements that read and change one. It must never decide a change.

use std::borrow::Cow;
use std::sync::LazyLock;

use broker::queue::Counted;
use rusqlite::{Connection, Params};

use crate::rows::blobs::{self, Kind, Value, put_together, take_apart};
use crate::sqlite::checksum::{insert_all, set};
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::{FailedReason, ItemStatus, QueueItem, QueueMode, Route, StoredItem};

pub(crate) struct ItemColumns {
    id: String,
    session_label: String,
    source: String,
    mode: String,
    channel: Option<String>,
    account: Option<String>,
    thread: Option<String>,
    principal: String,
    is_system: bool,
    message_json: String,
    request_json: String,
    event_id: Option<String>,
    sender_json: Option<String>,
    status: String,
    reason: Option<String>,
    detail: Option<String>,
    tries: u32,
    failures: u32,
    not_before: i64,
    turn_id: Option<String>,
    is_summarized: bool,
    created_at: i64,
    claimed_at: Option<i64>,
    delivered_at: Option<i64>,
    /// What of the message and of its request is in `blobs`.
    blobs_json: Option<String>,
}

columns!(ItemColumns {
    id,
    session_label,
    source,
    mode,
    channel,
    account,
    thread,
    principal,
    is_system,
    message_json,
    request_json,
    event_id,
    sender_json,
    status,
    reason,
    detail,
    tries,
    failures,
    not_before,
    turn_id,
    is_summarized,
    created_at,
    claimed_at,
    delivered_at,
    blobs_json,
});

fn items_where(condition: &str) -> String {
    format!("SELECT {} FROM queue_items WHERE {condition}", list::<ItemColumns>())
}

pub(crate) static OF_ID: LazyLock<String> = LazyLock::new(|| items_where("id = ?1"));
pub(crate) static WAITING: LazyLock<String> = LazyLock::new(|| {
    items_where("session_label = ?1 AND status IN ('pending', 'processing') ORDER BY n")
});
pub(crate) static OF_RUNNING_TURN: LazyLock<String> = LazyLock::new(|| {
    items_where(
        "session_label = ?1 AND status IN ('pending', 'processing')
           AND (status = 'processing' OR mode IN ('interrupt', 'steer', 'steer-backlog')) ORDER BY n",
    )
});
pub(crate) static UNNAMED: LazyLock<String> = LazyLock::new(|| {
    items_where("session_label = ?1 AND is_summarized = 1 AND turn_id IS NULL ORDER BY n")
});
pub(crate) static OF_TURN: LazyLock<String> = LazyLock::new(|| items_where("turn_id = ?1"));
/// The next session after `?1` with messages that wait or are in a turn.
pub(crate) const NEXT_SESSION: &str = "SELECT min(session_label) FROM queue_items WHERE session_label > ?1 AND status IN ('pending', 'processing')";

static ADD: LazyLock<String> = LazyLock::new(|| insert_all::<ItemColumns>("queue_items"));

/// The messages that a statement of this module finds.
pub(crate) fn read(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Stored<Vec<StoredItem>> {
    let rows: Vec<ItemColumns> = sql::all(connection, sql, params, "read a queue")?;
    rows.into_iter().map(|row| stored(whole(connection, row)?)).collect()
}

/// Whether a session has a message in a turn, or one that waits and is not about to be in the running turn: that was offered to it.
pub(crate) const WAITS: &str =
    "SELECT 1 FROM queue_items WHERE session_label = ?1 AND status IN ('pending', 'processing')
       AND (status = 'processing' OR turn_id IS NULL) LIMIT 1";
/// The messages of a session that wait and are counted for its cap, the newest first, without the newest `?2`.
pub(crate) const OVER: &str =
    "SELECT id FROM queue_items WHERE session_label = ?1 AND status = 'pending' AND turn_id IS NULL AND is_system = 0
     ORDER BY n DESC LIMIT -1 OFFSET ?2";
/// The same of those that interrupt.
pub(crate) const OVER_INTERRUPTS: &str =
    "SELECT id FROM queue_items WHERE session_label = ?1 AND status = 'pending' AND turn_id IS NULL AND is_system = 0
       AND mode = 'interrupt' ORDER BY n DESC LIMIT -1 OFFSET ?2";

pub(crate) fn waits(connection: &Connection, label: &str) -> Stored<bool> {
    sql::exists(connection, WAITS, (label,), "read a queue")
}

/// The messages of a session that there is no room for, the oldest first.
pub(crate) fn over(connection: &Connection, label: &str, counted: Counted) -> Stored<Vec<String>> {
    let sql = if counted.interrupts_only { OVER_INTERRUPTS } else { OVER };
    let mut over: Vec<String> = sql::all(connection, sql, (label, counted.room), "count a queue")?;
    over.reverse();
    Ok(over)
}

/// The message of that id.
pub(crate) fn of_id(connection: &Connection, id: &str) -> Stored<Option<StoredItem>> {
    Ok(read(connection, &OF_ID, (id,))?.pop())
}

/// Writes a new message.
pub(crate) fn add(connection: &Connection, new: StoredItem) -> Stored<()> {
    sql::insert(connection, &ADD, &apart(connection, columns_of(new))?, "queue a message")
}

/// The columns that may be large.
const LARGE_COLUMNS: [&str; 2] = ["message_json", "request_json"];

/// The row with its large texts in `blobs`.
fn apart(connection: &Connection, row: ItemColumns) -> Stored<ItemColumns> {
    let [message, request] = LARGE_COLUMNS;
    let value = |column, text| Value { column, text: Some(text), kind: Kind::Json };
    let values = [value(message, &*row.message_json), value(request, &*row.request_json)];
    let ([message, request], blobs_json) = take_apart(connection, values)?;
    if blobs_json.is_none() {
        return Ok(row);
    }
    let owned = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned).unwrap_or_default();
    let (message_json, request_json) = (owned(message), owned(request));
    Ok(ItemColumns { message_json, request_json, blobs_json, ..row })
}

/// The row with its texts as they were written.
fn whole(connection: &Connection, row: ItemColumns) -> Stored<ItemColumns> {
    let Some(names) = &row.blobs_json else { return Ok(row) };
    let of = format!("queued message `{}`", row.id);
    let [message, request] = LARGE_COLUMNS;
    let values = [(message, Some(&*row.message_json)), (request, Some(&*row.request_json))];
    let mut read = |hash: &str| blobs::read(connection, hash, &of);
    let [message, request] = put_together(names, values, &of, &mut read)?;
    let owned = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned).unwrap_or_default();
    let (message_json, request_json) = (owned(message), owned(request));
    Ok(ItemColumns { message_json, request_json, ..row })
}

fn stored(row: ItemColumns) -> Stored<StoredItem> {
    let unknown = || damaged(&format!("queued message `{}` is not as it was written", row.id));
    let sender =
        row.sender_json.as_deref().map(|json| serde_json::from_str(json).map_err(|_| unknown()));
    let reason = row.reason.as_deref().map(|name| FailedReason::of_name(name).ok_or_else(unknown));
    Ok(StoredItem {
        status: ItemStatus::of_name(&row.status).ok_or_else(unknown)?,
        reason: reason.transpose()?,
        sender: sender.transpose()?,
        item: QueueItem {
            mode: QueueMode::of_name(&row.mode).ok_or_else(unknown)?,
            id: row.id,
            route: Route { channel: row.channel, account: row.account, thread: row.thread },
            principal: row.principal,
            is_system: row.is_system,
            tries: row.tries,
            failures: row.failures,
            not_before: row.not_before,
        },
        session_label: row.session_label,
        source: row.source,
        message: row.message_json,
        request: row.request_json,
        event_id: row.event_id,
        detail: row.detail,
        turn_id: row.turn_id,
        created_at: row.created_at,
        claimed_at: row.claimed_at,
        delivered_at: row.delivered_at,
    })
}

fn columns_of(new: StoredItem) -> ItemColumns {
    let sender_json = new.sender.as_ref().and_then(|sender| serde_json::to_string(sender).ok());
    let QueueItem { id, mode, route, principal, is_system, tries, failures, not_before } = new.item;
    ItemColumns {
        id,
        session_label: new.session_label,
        source: new.source,
        mode: mode.as_str().to_owned(),
        channel: route.channel,
        account: route.account,
        thread: route.thread,
        principal,
        is_system,
        message_json: new.message,
        request_json: new.request,
        event_id: new.event_id,
        sender_json,
        status: new.status.as_str().to_owned(),
        reason: new.reason.map(|reason| reason.as_str().to_owned()),
        detail: new.detail,
        tries,
        failures,
        not_before,
        turn_id: new.turn_id,
        is_summarized: false,
        created_at: new.created_at,
        claimed_at: new.claimed_at,
        delivered_at: new.delivered_at,
        blobs_json: None,
    }
}

static FAIL: LazyLock<String> = LazyLock::new(|| {
    let change =
        set(&[("status", "'failed'"), ("reason", "?2"), ("detail", "?3"), ("is_summarized", "?4")]);
    format!(
        "UPDATE queue_items SET {change} WHERE id = ?1 AND status = 'pending' AND turn_id IS NULL
         RETURNING sender_json IS NOT NULL"
    )
});

/// A waiting message has failed. With `is_summarized`, the next turn of the session names it. `None` if it does not wait, or was
/// offered to a running turn; else whether an agent has sent it.
pub(crate) fn fail(
    connection: &Connection,
    id: &str,
    reason: FailedReason,
    detail: Option<&str>,
    is_summarized: bool,
) -> Stored<Option<bool>> {
    let row = (id, reason.as_str(), detail, is_summarized);
    sql::optional(connection, &FAIL, row, format_args!("end queued message `{id}`"))
}

static TAKE: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("status", "'processing'"), ("turn_id", "?2"), ("claimed_at", "?3")]);
    format!(
        "UPDATE queue_items SET {change} WHERE id = ?1 AND status = 'pending'
           AND (turn_id IS NULL OR turn_id = ?2)"
    )
});
static NAME: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("turn_id", "?2")]);
    format!(
        "UPDATE queue_items SET {change} WHERE id = ?1 AND is_summarized = 1 AND turn_id IS NULL"
    )
});

/// A turn takes a waiting message. False if it does not wait any more.
pub(crate) fn take(connection: &Connection, id: &str, turn_id: &str, now: i64) -> Stored<bool> {
    let doing = format_args!("take queued message `{id}`");
    Ok(sql::exec(connection, &TAKE, (id, turn_id, now), doing)? > 0)
}

/// A turn names a dropped message. False if another one has.
pub(crate) fn name(connection: &Connection, id: &str, turn_id: &str) -> Stored<bool> {
    let doing = format_args!("name dropped message `{id}`");
    Ok(sql::exec(connection, &NAME, (id, turn_id), doing)? > 0)
}

static OFFER: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("turn_id", "?2")]);
    format!(
        "UPDATE queue_items SET {change} WHERE id = ?1 AND status = 'pending' AND turn_id IS NULL"
    )
});

/// Offers a waiting message to a running turn. False if it does not wait, or was offered already.
pub(crate) fn offer(connection: &Connection, id: &str, turn_id: &str) -> Stored<bool> {
    let doing = format_args!("offer queued message `{id}`");
    Ok(sql::exec(connection, &OFFER, (id, turn_id), doing)? > 0)
}

static RELEASE: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("turn_id", "NULL")]);
    format!("UPDATE queue_items SET {change} WHERE id = ?1")
});

/// A message belongs to no turn.
pub(crate) fn release(connection: &Connection, id: &str) -> Stored<()> {
    let doing = format_args!("release queued message `{id}`");
    sql::exec(connection, &RELEASE, (id,), doing).map(drop)
}

static END: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[
        ("status", "?2"),
        ("reason", "?3"),
        ("detail", "?4"),
        ("turn_id", "?5"),
        ("delivered_at", "?6"),
    ]);
    format!("UPDATE queue_items SET {change} WHERE id = ?1")
});

/// A message has ended with a turn.
pub(crate) fn end(
    connection: &Connection,
    id: &str,
    turn_id: &str,
    reason: Option<(FailedReason, Option<&str>)>,
    now: i64,
) -> Stored<()> {
    let doing = format_args!("end queued message `{id}`");
    let status = if reason.is_some() { ItemStatus::Failed } else { ItemStatus::Delivered };
    let delivered_at = reason.is_none().then_some(now);
    let (reason, detail) = reason.unzip();
    let row = (
        id,
        status.as_str(),
        reason.map(FailedReason::as_str),
        detail.flatten(),
        turn_id,
        delivered_at,
    );
    sql::exec(connection, &END, row, doing).map(drop)
}

static AGAIN: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[
        ("status", "'pending'"),
        ("tries", "?2"),
        ("failures", "?3"),
        ("not_before", "?4"),
        ("turn_id", "NULL"),
        ("claimed_at", "NULL"),
    ]);
    format!("UPDATE queue_items SET {change} WHERE id = ?1")
});

/// A message waits for another try.
pub(crate) fn again(
    connection: &Connection,
    id: &str,
    (tries, failures, not_before): (u32, u32, i64),
) -> Stored<()> {
    let doing = format_args!("queue message `{id}` again");
    sql::exec(connection, &AGAIN, (id, tries, failures, not_before), doing).map(drop)
}
