//! A new message: its target, its event, and its position among those that wait, in one transaction.
//!
//! Messages of a session are queued one after the other, whichever process does it. It must never write a part of one.

use std::sync::atomic::Ordering;

use broker::queue::{Admission, Counted, EVENTS_MS, admit, event_source, is_debounced, new_row};
use tokio_postgres::types::Type;

use crate::connect::error::Failure;
use crate::connect::server::Param;
use crate::journal::pointer::unknown_turn;
use crate::queue::item_rows::{self, OF_ID};
use crate::queue::transaction::Transaction;
use crate::queue::{dispatch_end, links};
use crate::rows::turn_read::get;
use crate::sessions::aliases;
use model::{DropPolicy, Enqueued, FailedReason, NewItem, QueueLimits, QueueTarget};

/// The session whose head is the turn `$1`: that in which it ran, else the oldest.
const OF_HEAD: &str =
    "select s.label from @session_moves m join @sessions s on s.label = m.session_label
      join @turns t on t.id = $1
    where m.thread_id = $1 and s.head = $1 and s.status = 'active' and not s.opening
    order by s.label <> t.session_label, s.created_at, s.label limit 1";
/// Where `$3` is true: whether a turn of the session `$1` runs, or a message is in one, or waits and is not about to be in the running
/// turn, because it was offered to that. And whether a process other than `$2` wants to know of changes.
const STATE: &str = "select $3 and (exists (select from @sessions
     where label = $1 and running is not null and owner is not null and expires_at > @now_ms())
     or exists (select from @queue_items where session_label = $1 and status in ('pending', 'processing')
       and (status = 'processing' or turn_id is null))) as is_busy,
   exists (select from @listeners where owner <> $2 and expires_at > @now_ms()) as is_listened";

/// Queues a message.
///
/// # Errors
/// `unknown_turn` for a thread that does not exist.
pub(crate) async fn enqueue(
    transaction: &Transaction<'_>,
    new: &NewItem,
    limits: QueueLimits,
) -> Result<Enqueued, Failure> {
    let now = transaction.clock.now_ms();
    let id = &new.item.id;
    if transaction.again
        && let Some(stored) = item_rows::read(transaction, OF_ID, id).await?.pop()
    {
        let session_label = stored.session_label;
        transaction.changed.borrow_mut().push(session_label.clone());
        return Ok(match stored.reason {
            Some(FailedReason::Rejected) => Enqueued::Rejected { session_label },
            _ => Enqueued::Queued { session_label, is_fork: false, dropped: Vec::new() },
        });
    }
    if let Some(event_id) = &new.event_id
        && let Some(known) = note_event(transaction, new, event_id, now).await?
    {
        return Ok(known);
    }
    let (session_label, is_fork) = session_of(transaction, &new.to).await?;
    transaction.lock(&session_label).await?;
    let server = transaction.server;
    let debounced = is_debounced(&new.item);
    let of: [Param<'_>; 3] =
        [(&session_label, Type::TEXT), (&server.owner, Type::TEXT), (&debounced, Type::BOOL)];
    let (over, state) = tokio::join!(
        item_rows::over(transaction, &session_label, Counted::of(&new.item, limits)),
        transaction.row(STATE, &of),
    );
    let (over, state) = (over?, state?);
    let flag = |name: &str| state.as_ref().map_or(Ok(false), |row| get::<bool>(row, name));
    server.live.has_listeners.store(flag("is_listened")?, Ordering::Release);
    let admission = admit(&new.item, over, flag("is_busy")?, limits, now);
    if let Admission::Queued { dropped, .. } = &admission {
        let is_summarized = limits.drop == DropPolicy::Summarize;
        for id in dropped {
            let why = (FailedReason::Dropped, None);
            dispatch_end::fail(transaction, id, why, is_summarized).await?;
        }
    }
    let is_rejected = admission == Admission::Rejected;
    let (row, enqueued) = new_row(new, (session_label, is_fork), admission, now);
    item_rows::add(transaction, &row).await?;
    if is_rejected && new.event_id.is_some() {
        // Whoever sends a rejected event again means it: it is no duplicate.
        let (channel, account) = event_source(new);
        let forget =
            "delete from @queue_events where channel = $1 and account = $2 and event_id = $3";
        let of: [Param<'_>; 3] =
            [(&channel, Type::TEXT), (&account, Type::TEXT), (&new.event_id, Type::TEXT)];
        transaction.exec(forget, &of).await?;
    }
    Ok(enqueued)
}

/// Notes the event of a message. Returns the first message of the event, if there was one.
async fn note_event(
    transaction: &Transaction<'_>,
    new: &NewItem,
    event_id: &str,
    now: i64,
) -> Result<Option<Enqueued>, Failure> {
    let old = now.saturating_sub(EVENTS_MS);
    let (channel, account) = event_source(new);
    let note = "insert into @queue_events as e (channel, account, event_id, item_id, created_at) values ($1, $2, $3, $4, $5)
       on conflict (channel, account, event_id) do update set item_id = excluded.item_id, created_at = excluded.created_at
       where e.created_at <= $6";
    let params: [Param<'_>; 6] = [
        (&channel, Type::TEXT),
        (&account, Type::TEXT),
        (&event_id, Type::TEXT),
        (&new.item.id, Type::TEXT),
        (&now, Type::INT8),
        (&old, Type::INT8),
    ];
    if transaction.exec(note, &params).await? > 0 {
        let forget = "delete from @queue_events where created_at <= $1";
        transaction.exec(forget, &[(&old, Type::INT8)]).await?;
        return Ok(None);
    }
    let known = "select e.item_id, coalesce(i.session_label, '') as session_label
       from @queue_events e left join @queue_items i on i.id = e.item_id
       where e.channel = $1 and e.account = $2 and e.event_id = $3";
    let of =
        [(&channel as _, Type::TEXT), (&account as _, Type::TEXT), (&event_id as _, Type::TEXT)];
    let Some(row) = transaction.row(known, &of).await? else { return Ok(None) };
    let (item_id, session_label) = (get(&row, "item_id")?, get(&row, "session_label")?);
    Ok(Some(Enqueued::Duplicate { item_id, session_label }))
}

/// The session of a new message, and whether it was made for it.
async fn session_of(
    transaction: &Transaction<'_>,
    to: &QueueTarget,
) -> Result<(String, bool), Failure> {
    let (turn_id, label) = match to {
        QueueTarget::Session(label) => {
            return Ok((aliases::resolve_in(transaction, label).await?, false));
        }
        QueueTarget::Thread { turn_id, fork } => (turn_id, fork),
    };
    transaction.lock(turn_id).await?;
    if let Some(row) = transaction.row(OF_HEAD, &[(turn_id, Type::TEXT)]).await? {
        return Ok((get(&row, "label")?, false));
    }
    if !links::fork(transaction, turn_id, label).await? {
        return Err(unknown_turn(turn_id).into());
    }
    Ok((label.clone(), true))
}
