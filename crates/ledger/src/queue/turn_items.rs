//! The messages of a turn, in the transactions of its commit points: taken in W0 and in the step that stores a steered one,
//! ended in W4 (docs/rules/queue.md#retry), which also writes the turn's delivery.
//!
//! `broker::queue` decides what becomes of a message; it must never be decided here.

use broker::outbox::addressed;
use broker::queue::{ItemEnd, TurnEnd as Ended, after_turn, answer, how_ended};
use rusqlite::Connection;

use crate::queue::delivery_rows;
use crate::queue::dispatch_end;
use crate::queue::item_rows::{self, OF_TURN};
use crate::sqlite::error::Stored;
use base::clock::Clock;
use model::{
    CommitReceipt, FailedReason, ItemStatus, QueueEnd, StorageError, StorageErrorKind, StoredItem,
    TurnEnd, TurnOpening,
};

/// Checks that a turn that begins can take its messages, and name the dropped ones.
///
/// # Errors
/// `stale_writer` where one of them does not wait any more: another turn has taken it, or it was cancelled or dropped.
pub(crate) fn check(connection: &Connection, opening: &TurnOpening) -> Stored<()> {
    let waits = |it: &StoredItem| it.status == ItemStatus::Pending;
    let is_unnamed = |it: &StoredItem| it.reason == Some(FailedReason::Dropped);
    let items = opening.items.iter().map(|id| (id, &waits as &dyn Fn(&StoredItem) -> bool));
    let named = opening.named.iter().map(|id| (id, &is_unnamed as &dyn Fn(&StoredItem) -> bool));
    for (id, is_free) in items.chain(named) {
        let stored = item_rows::of_id(connection, id)?;
        if !stored.is_some_and(|it| is_free(&it) && it.turn_id.is_none()) {
            return Err(taken(id));
        }
    }
    Ok(())
}

/// W0: the turn takes its messages, and names the dropped ones.
///
/// # Errors
/// `stale_writer` where one of them does not wait any more.
pub(crate) fn take_opening(connection: &Connection, opening: &TurnOpening, now: i64) -> Stored<()> {
    take(connection, &opening.items, &opening.turn_id, now)?;
    for id in &opening.named {
        if !item_rows::name(connection, id, &opening.turn_id)? {
            return Err(taken(id));
        }
    }
    Ok(())
}

/// W1 to W3: the turn takes the messages.
///
/// # Errors
/// `stale_writer` where one of them does not wait any more.
pub(crate) fn take(
    connection: &Connection,
    items: &[String],
    turn_id: &str,
    now: i64,
) -> Stored<()> {
    for id in items {
        if !item_rows::take(connection, id, turn_id, now)? {
            // A step that is written again repeats its messages.
            let own = item_rows::of_id(connection, id)?.is_some_and(|it| {
                it.status == ItemStatus::Processing && it.turn_id.as_deref() == Some(turn_id)
            });
            if !own {
                return Err(taken(id));
            }
        }
    }
    Ok(())
}

fn taken(id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::StaleWriter,
        format!("message `{id}` of the queue does not wait any more; this turn has none of it"),
    )
}

/// W4: ends the messages of a turn that is written.
pub(crate) fn end(
    connection: &Connection,
    turn: &TurnEnd,
    queue: &QueueEnd,
    receipt: &CommitReceipt,
    clock: &Clock,
) -> Stored<()> {
    let now = clock.now_ms();
    let ended = how_ended(turn, queue, receipt.head.as_deref());
    let turn_id = &turn.turn_id;
    take(connection, &queue.steered, turn_id, now)?;
    let mut items = item_rows::read(connection, &OF_TURN, (turn_id,))?;
    for id in &queue.items {
        // A turn that was written without W0 has not taken them.
        let is_waiting =
            |it: &model::StoredItem| it.status == ItemStatus::Pending && it.turn_id.is_none();
        items.extend(item_rows::of_id(connection, id)?.filter(is_waiting));
    }
    let (mut requests, mut waiting) = (Vec::new(), Vec::new());
    for stored in &items {
        let item = &stored.item;
        match stored.status {
            // It was offered, and the turn has not taken it.
            ItemStatus::Pending if stored.turn_id.is_some() => {
                item_rows::release(connection, &item.id)?;
            }
            ItemStatus::Pending | ItemStatus::Processing => {
                let item_end = after_turn(item.tries, item.failures, &ended, now);
                let task = stored.sender.as_ref().and_then(|sender| sender.task());
                if let Some(id) = task
                    && !matches!(item_end, ItemEnd::Pending { .. })
                {
                    let ending = dispatch_end::of_turn(connection, turn)?;
                    dispatch_end::end(connection, id, ending, clock)?;
                }
                match item_end {
                    ItemEnd::Delivered => {
                        requests.push(stored.request.as_str());
                        item_rows::end(connection, &item.id, turn_id, None, now)?;
                    }
                    ItemEnd::Failed(reason) => {
                        requests.push(stored.request.as_str());
                        let detail = turn.error.as_ref().map(|error| error.message.as_str());
                        item_rows::end(connection, &item.id, turn_id, Some((reason, detail)), now)?;
                    }
                    ItemEnd::Pending { tries, failures, not_before } => {
                        waiting.push(stored.request.as_str());
                        let next = (tries, failures, not_before);
                        item_rows::again(connection, &item.id, next)?;
                    }
                }
            }
            // A dropped message that this turn has named: the next one does, if this one is not in the session.
            ItemStatus::Failed if !matches!(ended, Ended::Moved | Ended::Aborted) => {
                if stored.reason == Some(FailedReason::Dropped) {
                    item_rows::release(connection, &item.id)?;
                }
            }
            ItemStatus::Failed | ItemStatus::Delivered => {}
        }
    }
    if queue.is_interrupted
        && let Some(addressed) = addressed(waiting.into_iter())
    {
        // Its delivery may be why the end of the turn was not stored. The next try would be answered in vain, too.
        let label = &turn.header.session_label;
        delivery_rows::add(connection, turn_id, label, addressed.target, now)?;
        delivery_rows::remove(connection, turn_id)?;
    }
    // Messages that wait for another try are answered by that.
    match addressed(requests.into_iter()) {
        Some(addressed) if turn.error.is_some() || !addressed.is_silent(&answer(turn)) => {
            let label = &turn.header.session_label;
            delivery_rows::add(connection, turn_id, label, addressed.target, now)
        }
        Some(_) | None => Ok(()),
    }
}
