//! Messages in a queue: what the next step of a session depends on, offers to a running turn, cancelled and refused messages,
//! suspension.
//!
//! It must never touch a message that a turn has taken.

use std::cell::RefCell;

use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::queue::dispatch_end;
use crate::queue::item_rows::{self, OF_RUNNING_TURN, UNNAMED, WAITING};
use crate::queue::transaction::Transaction;
use crate::rows::turn_read::get;
use model::{FailedReason, ItemStatus, QueueLease, QueueView, SessionQueue, StoredItem};

const READING: &str = "read a queue";

/// The queue of a session.
pub(crate) async fn session(server: &Server, label: &str, view: QueueView) -> Stored<SessionQueue> {
    let state =
        "select coalesce(s.owner = $2, false) as own, s.running is not null as runs, s.parked,
         coalesce(s.owner is not null and s.expires_at > @now_ms(), false) as lives,
         exists (select from @queue_suspensions where session_label = $1) as is_suspended
       from (select) as one left join @sessions s on s.label = $1";
    let of: [Param<'_>; 2] = [(&label, Type::TEXT), (&server.owner, Type::TEXT)];
    let label: [Param<'_>; 1] = [(&label, Type::TEXT)];
    let waiting = match view {
        QueueView::Whole => WAITING,
        QueueView::OfRunningTurn => OF_RUNNING_TURN,
    };
    let (waiting, unnamed) =
        (server.sql(&item_rows::select(waiting)), server.sql(&item_rows::select(UNNAMED)));
    let state = server.sql(state);
    let read = server.run(READING, async |client, _| {
        // The waiting ones first: a turn that ends in between has freed the session by then.
        let (waiting, dropped, state) = tokio::try_join!(biased;
            client.query_typed(&waiting, &label),
            client.query_typed(&unnamed, &label),
            client.query_typed_one(&state, &of)
        )?;
        Ok((waiting, dropped, state))
    });
    let (waiting, dropped, state) = read.await?;
    let waiting = item_rows::all(&waiting)?;
    let open_turn = waiting.iter().find(|it| it.status == ItemStatus::Processing);
    let open_turn = open_turn.and_then(|it| it.turn_id.clone());
    let [own, lives]: [bool; 2] = [get(&state, "own")?, get(&state, "lives")?];
    let runs: bool = get(&state, "runs")?;
    Ok(SessionQueue {
        dropped: item_rows::all(&dropped)?,
        is_suspended: get(&state, "is_suspended")?,
        parked_turn: get(&state, "parked")?,
        lease: match (lives, own, runs) {
            (false, _, _) => QueueLease::Free,
            (true, true, _) => QueueLease::Here,
            (true, false, true) => QueueLease::RunsElsewhere,
            (true, false, false) => QueueLease::Elsewhere,
        },
        pending: waiting.into_iter().filter(|it| it.status == ItemStatus::Pending).collect(),
        open_turn,
    })
}

/// The messages that a condition of one text finds.
pub(crate) async fn items(server: &Server, condition: &str, of: &str) -> Stored<Vec<StoredItem>> {
    let text = item_rows::select(condition);
    item_rows::all(&server.rows(READING, &text, &[(&of, Type::TEXT)]).await?)
}

/// The sessions with messages that wait or are in a turn.
pub(crate) async fn waiting_sessions(server: &Server) -> Stored<Vec<String>> {
    let text = "with recursive labels as (
         (select min(session_label) as label from @queue_items where status in ('pending', 'processing'))
         union all
         select (select min(session_label) from @queue_items
           where session_label > l.label and status in ('pending', 'processing')) from labels l where l.label is not null)
       select label from labels where label is not null";
    let rows = server.rows("read the sessions that wait", text, &[]).await?;
    rows.iter().map(|row| get(row, "label")).collect()
}

/// Offers messages to a running turn. Returns those that still waited.
pub(crate) async fn offer(
    transaction: &Transaction<'_>,
    ids: &[String],
    turn_id: &str,
) -> Result<Vec<String>, Failure> {
    // After a lost answer, those of the first try are offered already.
    let text = "update @queue_items set turn_id = $2
       where id = any($1) and status = 'pending' and (turn_id is null or ($3 and turn_id = $2)) returning id";
    let params: [Param<'_>; 3] =
        [(&ids, Type::TEXT_ARRAY), (&turn_id, Type::TEXT), (&transaction.again, Type::BOOL)];
    let rows = transaction.rows(text, &params).await?;
    let offered: Vec<String> = rows.iter().map(|row| get(row, "id")).collect::<Stored<_>>()?;
    Ok(ids.iter().filter(|id| offered.contains(id)).cloned().collect())
}

/// Takes back what a turn was offered and has not taken.
pub(crate) async fn withdraw(server: &Server, turn_id: &str) -> Stored<()> {
    let text = "update @queue_items set turn_id = null where turn_id = $1 and status = 'pending'";
    server.rows("take back an offer", text, &[(&turn_id, Type::TEXT)]).await.map(drop)
}

/// Cancels a message that waits.
pub(crate) async fn cancel(transaction: &Transaction<'_>, id: &str) -> Result<bool, Failure> {
    let why = (FailedReason::Cancelled, None);
    let is_cancelled = dispatch_end::fail(transaction, id, why, false).await?;
    Ok(transaction.has_committed().await? || is_cancelled)
}

/// Cancels all messages of a session that wait. After a lost answer, those are returned that the `former` try has cancelled.
pub(crate) async fn clear(
    transaction: &Transaction<'_>,
    label: &str,
    former: &RefCell<Vec<String>>,
) -> Result<Vec<String>, Failure> {
    let mut cancelled = Vec::new();
    for stored in item_rows::read(transaction, WAITING, label).await? {
        let id = stored.item.id;
        if dispatch_end::fail(transaction, &id, (FailedReason::Cancelled, None), false).await? {
            cancelled.push(id);
        }
    }
    if transaction.has_committed().await? {
        // What came after it was cancelled by this one.
        cancelled.splice(0..0, former.take());
    }
    former.replace(cancelled.clone());
    Ok(cancelled)
}

/// The turn of waiting messages could not begin.
pub(crate) async fn refuse(
    transaction: &Transaction<'_>,
    ids: &[String],
    detail: &str,
) -> Result<(), Failure> {
    for id in ids {
        let why = (FailedReason::RunFailed, Some(detail));
        dispatch_end::fail(transaction, id, why, false).await?;
    }
    Ok(())
}

/// Suspends a session's queue, or ends that.
pub(crate) async fn suspend(server: &Server, label: &str, is_suspended: bool) -> Stored<()> {
    let text = if is_suspended {
        "insert into @queue_suspensions (session_label, created_at) select $1, @now_ms() where @is_open()
         on conflict do nothing"
    } else {
        "delete from @queue_suspensions where session_label = $1 and @is_open()"
    };
    server.rows("suspend a queue", text, &[(&label, Type::TEXT)]).await.map(drop)
}
