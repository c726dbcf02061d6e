//! The rows of `schedules`: each due time is taken once. It must never compute one.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::queue::enqueue;
use crate::queue::transaction::Transaction;
use crate::rows::turn_read::get;
use model::{Enqueued, Firing, QueueLimits, StoredSchedule};

/// Of those that are due, so many are read at once; the others are when these have been taken.
const SELECT: &str =
    "select id, spec_json, item_json, next_at, last_at, created_at from @schedules";
const READING: &str = "read the schedules";

fn stored(row: &Row) -> Stored<StoredSchedule> {
    Ok(StoredSchedule {
        id: get(row, "id")?,
        spec: get(row, "spec_json")?,
        item: get(row, "item_json")?,
        next_at: get(row, "next_at")?,
        last_at: get(row, "last_at")?,
        created_at: get(row, "created_at")?,
    })
}

/// All schedules.
pub(crate) async fn all(server: &Server) -> Stored<Vec<StoredSchedule>> {
    let rows = server.rows(READING, &format!("{SELECT} order by id"), &[]).await?;
    rows.iter().map(stored).collect()
}

/// Those that are due, a hundred at most, and the next due time of the others.
pub(crate) async fn due(server: &Server, now: i64) -> Stored<(Vec<StoredSchedule>, Option<i64>)> {
    let of: [Param<'_>; 1] = [(&now, Type::INT8)];
    let due = format!("{SELECT} where next_at <= $1 order by next_at, id limit 100");
    let due = server.rows(READING, &due, &of).await?;
    let next = "select min(next_at) as next_at from @schedules where next_at > $1";
    let next = server.row(READING, next, &of).await?;
    let next = next.map(|row| get(&row, "next_at")).transpose()?.flatten();
    Ok((due.iter().map(stored).collect::<Stored<_>>()?, next))
}

/// Defines a schedule. One with the same definition stays as it is.
pub(crate) async fn put(
    transaction: &Transaction<'_>,
    (id, spec, item): (&str, &str, &str),
    next_at: Option<i64>,
) -> Result<Option<StoredSchedule>, Failure> {
    let put = "insert into @schedules as s (id, spec_json, item_json, next_at, created_at) values ($1, $2, $3, $4, $5)
       on conflict (id) do update set spec_json = excluded.spec_json, item_json = excluded.item_json, next_at = excluded.next_at, last_at = null,
         created_at = excluded.created_at
       where s.spec_json <> excluded.spec_json or s.item_json <> excluded.item_json";
    let now = transaction.clock.now_ms();
    let params: [Param<'_>; 5] = [
        (&id, Type::TEXT),
        (&spec, Type::TEXT),
        (&item, Type::TEXT),
        (&next_at, Type::INT8),
        (&now, Type::INT8),
    ];
    transaction.exec(put, &params).await?;
    let read = format!("{SELECT} where id = $1");
    let row = transaction.row(&read, &[(&id, Type::TEXT)]).await?;
    Ok(row.as_ref().map(stored).transpose()?)
}

/// Removes a schedule. False where there is none.
pub(crate) async fn remove(server: &Server, id: &str) -> Stored<bool> {
    let text = "delete from @schedules where id = $1 returning id";
    Ok(!server.once("remove a schedule", text, &[(&id, Type::TEXT)]).await?.is_empty())
}

/// Takes a due time, and queues its message.
pub(crate) async fn fire(
    transaction: &Transaction<'_>,
    firing: &Firing,
    limits: QueueLimits,
) -> Result<Option<Enqueued>, Failure> {
    let Firing { id, due, next_at, message } = firing;
    let last_at = message.as_ref().map(|(_, at)| *at);
    let take = "update @schedules set next_at = $3, last_at = coalesce($4, last_at) where id = $1 and next_at = $2";
    let params: [Param<'_>; 4] =
        [(id, Type::TEXT), (due, Type::INT8), (next_at, Type::INT8), (&last_at, Type::INT8)];
    let is_taken = transaction.exec(take, &params).await? > 0;
    // After a lost answer, the first try has taken it, and the message is found as queued: it is for this process to begin its turn.
    if !transaction.has_committed().await? && !is_taken {
        return Ok(None);
    }
    match message {
        None => Ok(None),
        Some((item, _)) => enqueue::enqueue(transaction, item, limits).await.map(Some),
    }
}
