//! The rows of `queue_items`: the statements that read and change one. It must never decide a change.

use broker::queue::Counted;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored, damaged};
use crate::connect::server::Param;
use crate::queue::transaction::Transaction;
use crate::rows::body::storable;
use crate::rows::turn_read::get;
use model::{FailedReason, ItemStatus, QueueItem, QueueMode, Route, StoredItem};

const COLUMNS: &str = "id, session_label, source, mode, channel, account, thread, principal, is_system, message_json, request_json,
    event_id, sender_json, status, reason, detail, tries, failures, not_before, turn_id, created_at, claimed_at, delivered_at";

/// Those that wait or are in a turn of the session `$1`, in the order of arrival.
pub(crate) const WAITING: &str =
    "session_label = $1 and status in ('pending', 'processing') order by n";
/// Of these, those that are in a turn, and those that may enter or end it.
pub(crate) const OF_RUNNING_TURN: &str =
    "session_label = $1 and status in ('pending', 'processing')
    and (status = 'processing' or mode in ('interrupt', 'steer', 'steer-backlog')) order by n";
/// The dropped ones of the session `$1` that no turn has named.
pub(crate) const UNNAMED: &str =
    "session_label = $1 and is_summarized and turn_id is null order by n";
pub(crate) const OF_ID: &str = "id = $1";
/// Those of the turn `$1`, and nobody else changes them.
pub(crate) const OF_TURN: &str = "turn_id = $1 order by n for update";

/// A statement that reads messages.
pub(crate) fn select(condition: &str) -> String {
    format!("select {COLUMNS} from @queue_items where {condition}")
}

/// The message of a row.
pub(crate) fn stored(row: &Row) -> Stored<StoredItem> {
    let id: String = get(row, "id")?;
    let unknown = || damaged(format_args!("queued message `{id}` is not as it was written"));
    let sender: Option<&str> = get(row, "sender_json")?;
    let reason: Option<&str> = get(row, "reason")?;
    let count = |name: &str| Ok(u32::try_from(get::<i32>(row, name)?).unwrap_or(0));
    Ok(StoredItem {
        item: QueueItem {
            mode: QueueMode::of_name(get(row, "mode")?).ok_or_else(unknown)?,
            route: Route {
                channel: get(row, "channel")?,
                account: get(row, "account")?,
                thread: get(row, "thread")?,
            },
            principal: get(row, "principal")?,
            is_system: get(row, "is_system")?,
            tries: count("tries")?,
            failures: count("failures")?,
            not_before: get(row, "not_before")?,
            id: id.clone(),
        },
        session_label: get(row, "session_label")?,
        source: get(row, "source")?,
        message: get(row, "message_json")?,
        request: get(row, "request_json")?,
        event_id: get(row, "event_id")?,
        sender: sender.map(|json| serde_json::from_str(json).map_err(|_| unknown())).transpose()?,
        status: ItemStatus::of_name(get(row, "status")?).ok_or_else(unknown)?,
        reason: reason.map(|name| FailedReason::of_name(name).ok_or_else(unknown)).transpose()?,
        detail: get(row, "detail")?,
        turn_id: get(row, "turn_id")?,
        created_at: get(row, "created_at")?,
        claimed_at: get(row, "claimed_at")?,
        delivered_at: get(row, "delivered_at")?,
    })
}

/// The messages of rows.
pub(crate) fn all(rows: &[Row]) -> Stored<Vec<StoredItem>> {
    rows.iter().map(stored).collect()
}

/// The messages that a condition of one text finds.
pub(crate) async fn read(
    transaction: &Transaction<'_>,
    condition: &str,
    of: &str,
) -> Result<Vec<StoredItem>, Failure> {
    let rows = transaction.rows(&select(condition), &[(&of, Type::TEXT)]).await?;
    Ok(all(&rows)?)
}

/// The messages of a session that there is no room for, the oldest first; none for a message that is exempt from the cap.
pub(crate) async fn over(
    transaction: &Transaction<'_>,
    label: &str,
    counted: Option<Counted>,
) -> Result<Vec<String>, Failure> {
    let Some(Counted { interrupts_only, room }) = counted else { return Ok(Vec::new()) };
    let only = if interrupts_only { "and mode = 'interrupt'" } else { "" };
    let text = format!(
        "select id from @queue_items where session_label = $1 and status = 'pending' and turn_id is null and not is_system {only}
         order by n desc offset $2"
    );
    let room = i64::from(room);
    let rows = transaction.rows(&text, &[(&label, Type::TEXT), (&room, Type::INT8)]).await?;
    Ok(rows.iter().rev().map(|row| get(row, "id")).collect::<Stored<_>>()?)
}

/// Writes a new message.
pub(crate) async fn add(transaction: &Transaction<'_>, new: &StoredItem) -> Result<(), Failure> {
    let text = "insert into @queue_items (id, session_label, source, mode, channel, account, thread, principal, is_system,
         message_json, request_json, event_id, sender_json, status, reason, detail, tries, failures, not_before, created_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, 0, 0, $17, $18)";
    let item = &new.item;
    let sender = new.sender.as_ref().and_then(|sender| serde_json::to_string(sender).ok());
    let (mode, status) = (item.mode.as_str(), new.status.as_str());
    let reason = new.reason.map(FailedReason::as_str);
    let params: [Param<'_>; 18] = [
        (&item.id, Type::TEXT),
        (&new.session_label, Type::TEXT),
        (&new.source, Type::TEXT),
        (&mode, Type::TEXT),
        (&item.route.channel, Type::TEXT),
        (&item.route.account, Type::TEXT),
        (&item.route.thread, Type::TEXT),
        (&item.principal, Type::TEXT),
        (&item.is_system, Type::BOOL),
        (&new.message, Type::TEXT),
        (&new.request, Type::TEXT),
        (&new.event_id, Type::TEXT),
        (&sender, Type::TEXT),
        (&status, Type::TEXT),
        (&reason, Type::TEXT),
        (&new.detail, Type::TEXT),
        (&item.not_before, Type::INT8),
        (&new.created_at, Type::INT8),
    ];
    transaction.exec(text, &params).await?;
    transaction.changed.borrow_mut().push(new.session_label.clone());
    Ok(())
}

/// A waiting message has failed. With `is_summarized`, the next turn of the session names it. `None` if it does not wait, or was
/// offered to a running turn; else whether an agent has sent it.
pub(crate) async fn fail(
    transaction: &Transaction<'_>,
    id: &str,
    (reason, detail): (FailedReason, Option<&str>),
    is_summarized: bool,
) -> Result<Option<bool>, Failure> {
    let text = "update @queue_items set status = 'failed', reason = $2, detail = $3, is_summarized = $4
       where id = $1 and status = 'pending' and turn_id is null returning sender_json is not null as from_agent";
    let (reason, detail) = (reason.as_str(), detail.map(storable));
    let params: [Param<'_>; 4] = [
        (&id, Type::TEXT),
        (&reason, Type::TEXT),
        (&detail, Type::TEXT),
        (&is_summarized, Type::BOOL),
    ];
    let row = transaction.row(text, &params).await?;
    Ok(row.map(|row| get(&row, "from_agent")).transpose()?)
}

/// A message belongs to no turn.
pub(crate) async fn release(transaction: &Transaction<'_>, ids: &[String]) -> Result<(), Failure> {
    let text = "update @queue_items set turn_id = null where id = any($1)";
    transaction.exec(text, &[(&ids, Type::TEXT_ARRAY)]).await.map(drop)
}

/// Messages have ended with a turn, for the same reason.
pub(crate) async fn end(
    transaction: &Transaction<'_>,
    ids: &[String],
    turn_id: &str,
    reason: Option<(FailedReason, Option<&str>)>,
    now: i64,
) -> Result<(), Failure> {
    let text = "update @queue_items set status = $2, reason = $3, detail = $4, turn_id = $5, delivered_at = $6
       where id = any($1)";
    let status = if reason.is_some() { ItemStatus::Failed } else { ItemStatus::Delivered };
    let status = status.as_str();
    let delivered_at = reason.is_none().then_some(now);
    let (reason, detail) = reason.unzip();
    let (reason, detail) = (reason.map(FailedReason::as_str), detail.flatten());
    let params: [Param<'_>; 6] = [
        (&ids, Type::TEXT_ARRAY),
        (&status, Type::TEXT),
        (&reason, Type::TEXT),
        (&detail, Type::TEXT),
        (&turn_id, Type::TEXT),
        (&delivered_at, Type::INT8),
    ];
    transaction.exec(text, &params).await.map(drop)
}

/// A message waits for another try.
pub(crate) async fn again(
    transaction: &Transaction<'_>,
    id: &str,
    (tries, failures, not_before): (u32, u32, i64),
) -> Result<(), Failure> {
    let text = "update @queue_items set status = 'pending', tries = $2, failures = $3, not_before = $4, turn_id = null,
         claimed_at = null where id = $1";
    let count = |it: u32| i32::try_from(it).unwrap_or(i32::MAX);
    let (tries, failures) = (count(tries), count(failures));
    let params: [Param<'_>; 4] = [
        (&id, Type::TEXT),
        (&tries, Type::INT4),
        (&failures, Type::INT4),
        (&not_before, Type::INT8),
    ];
    transaction.exec(text, &params).await.map(drop)
}
