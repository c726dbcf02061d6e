//! The broker's part of a turn's commit points: messages are taken in the statements of W0 and of the step that stores a steered
//! one, and ended in the transaction of W4, which also writes the turn's delivery and ends tasks.
//!
//! `broker::queue` decides what becomes of a message; it must never be decided here.

use broker::outbox::addressed;
use broker::queue::{ItemEnd, TurnEnd as Ended, after_turn, answer, how_ended};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

use crate::connect::error::Failure;
use crate::connect::server::{Param, Server};
use crate::queue::item_rows::{self, OF_TURN};
use crate::queue::transaction::Transaction;
use crate::queue::{approvals, budgets, dispatch_changes, dispatch_end};
use crate::rows::turn_read::get;
use model::{
    CommitReceipt, FailedReason, ItemStatus, QueueEnd, StorageError, StorageErrorKind, StoredItem,
    TurnEnd, TurnOpening,
};

/// What the server answers where a message of a turn does not wait any more.
const TAKEN: &str = "LG001";

/// The statement's part that takes the messages `ids` for the turn `turn`, for each row of `of`, and lets it name the dropped messages
/// `named`; the statement has to select [`all_taken`].
pub(crate) fn take((ids, named): (&str, Option<&str>), turn: &str, of: &str) -> String {
    let names = match named {
        Some(named) => {
            format!(" or (q.id = any({named}) and q.is_summarized and q.turn_id is null)")
        }
        None => String::new(),
    };
    format!(
        "items as (
           update @queue_items q set turn_id = {turn},
             status = case when q.status = 'pending' then 'processing' else q.status end,
             claimed_at = case when q.status = 'pending' then @now_ms() else q.claimed_at end
           from {of}
           where (q.id = any({ids}) and q.status = 'pending' and (q.turn_id is null or q.turn_id = {turn})){names}
           returning q.id)"
    )
}

/// Fails the statement unless all of `ids` and `named` are the turn's: taken now, or by the same statement before.
pub(crate) fn all_taken((ids, named): (&str, Option<&str>), turn: &str) -> String {
    let named = named.map(|named| format!(" + cardinality({named})")).unwrap_or_default();
    format!(
        "@expect((select count(*) from items) + (select count(*) from @queue_items
           where id = any({ids}) and status = 'processing' and turn_id = {turn}) = cardinality({ids}){named},
           '{TAKEN}', 'a message of the queue does not wait')"
    )
}

/// The error for a message that another turn has, or that was cancelled.
pub(crate) fn taken() -> StorageError {
    let message = "a message of the queue does not wait any more; this turn has none of it";
    StorageError::new(StorageErrorKind::StaleWriter, message)
}

/// The error of a statement whose turn does not get its messages.
pub(crate) fn refused(error: Error) -> Failure {
    match error.as_db_error() {
        Some(server) if server.code().code() == TAKEN => taken().into(),
        _ => error.into(),
    }
}

/// Whether W4 of a turn has more to write than its own statement.
pub(crate) fn has_more(turn: &TurnEnd) -> bool {
    turn.queue.is_some() || turn.has_approvals || dispatch_changes::may_have_children(turn)
}

/// The rest of W4, after the statement that has written the turn.
pub(crate) async fn finish(
    transaction: &Transaction<'_>,
    turn: &TurnEnd,
    receipt: &CommitReceipt,
) -> Result<(), Failure> {
    if let Some(queue) = &turn.queue {
        end_items(transaction, turn, queue, receipt).await?;
    }
    if turn.has_approvals {
        approvals::cancel(transaction, &turn.turn_id).await?;
    }
    let has_children = dispatch_changes::may_have_children(turn)
        && dispatch_changes::parent_ended(transaction, turn).await?;
    if turn.queue.as_ref().is_some_and(|queue| queue.is_interrupted) {
        budgets::close_turn(transaction, &turn.turn_id).await
    } else if has_children {
        budgets::close_tree(transaction, &turn.turn_id).await
    } else {
        Ok(())
    }
}

/// The messages of the turn `$1`, those of `$2` that still wait, and nobody else changes them. `$2` is what the turn was to take: a turn
/// that was written without W0 has not taken it.
const OF_END: &str = "turn_id = $1 or (id = any($2) and status = 'pending' and turn_id is null) order by n for update";

async fn end_items(
    transaction: &Transaction<'_>,
    turn: &TurnEnd,
    queue: &QueueEnd,
    receipt: &CommitReceipt,
) -> Result<(), Failure> {
    let now = transaction.clock.now_ms();
    let ended = how_ended(turn, queue, receipt.head.as_deref());
    let turn_id = &turn.turn_id;
    if !queue.steered.is_empty() {
        let (take, all) =
            (take(("$1", None), "$2", "(select) as one"), all_taken(("$1", None), "$2"));
        let text = transaction.server.sql(&format!("with {take} select {all}"));
        let of: [Param<'_>; 2] = [(&queue.steered, Type::TEXT_ARRAY), (turn_id, Type::TEXT)];
        transaction.client.query_typed(&text, &of).await.map_err(refused)?;
    }
    let of: [Param<'_>; 2] = [(turn_id, Type::TEXT), (&queue.items, Type::TEXT_ARRAY)];
    let items = if queue.items.is_empty() {
        item_rows::read(transaction, OF_TURN, turn_id).await?
    } else {
        item_rows::all(&transaction.rows(&item_rows::select(OF_END), &of).await?)?
    };
    let mut released = Vec::new();
    let (mut delivered, mut failed): (Vec<String>, Option<(FailedReason, Vec<String>)>) =
        Default::default();
    let (mut requests, mut waiting) = (Vec::new(), Vec::new());
    for stored in &items {
        let item = &stored.item;
        match stored.status {
            // It was offered, and the turn has not taken it.
            ItemStatus::Pending if stored.turn_id.is_some() => released.push(item.id.clone()),
            ItemStatus::Pending | ItemStatus::Processing => {
                let item_end = after_turn(item.tries, item.failures, &ended, now);
                if !matches!(item_end, ItemEnd::Pending { .. }) {
                    end_task(transaction, stored, turn).await?;
                    requests.push(stored.request.as_str());
                }
                match item_end {
                    ItemEnd::Delivered => delivered.push(item.id.clone()),
                    ItemEnd::Failed(reason) => match &mut failed {
                        Some((of, ids)) if *of == reason => ids.push(item.id.clone()),
                        _ => {
                            let former = failed.replace((reason, vec![item.id.clone()]));
                            end_failed(transaction, turn, former, now).await?;
                        }
                    },
                    ItemEnd::Pending { tries, failures, not_before } => {
                        waiting.push(stored.request.as_str());
                        let next = (tries, failures, not_before);
                        item_rows::again(transaction, &item.id, next).await?;
                    }
                }
            }
            // A dropped message that this turn has named: the next one does, if this one is not in the session.
            ItemStatus::Failed if !matches!(ended, Ended::Moved | Ended::Aborted) => {
                if stored.reason == Some(FailedReason::Dropped) {
                    released.push(item.id.clone());
                }
            }
            ItemStatus::Failed | ItemStatus::Delivered => {}
        }
    }
    if !released.is_empty() {
        item_rows::release(transaction, &released).await?;
    }
    if !delivered.is_empty() {
        item_rows::end(transaction, &delivered, turn_id, None, now).await?;
    }
    end_failed(transaction, turn, failed, now).await?;
    if queue.is_interrupted
        && let Some(addressed) = addressed(waiting.into_iter())
    {
        // Its delivery may be why the end of the turn was not stored. The next try would be answered in vain, too.
        add_delivery(transaction, turn, &addressed.target, now).await?;
        let remove = "delete from @deliveries where turn_id = $1";
        transaction.exec(remove, &[(turn_id, Type::TEXT)]).await?;
    }
    // Messages that wait for another try are answered by that.
    match addressed(requests.into_iter()) {
        Some(addressed) if turn.error.is_some() || !addressed.is_silent(&answer(turn)) => {
            add_delivery(transaction, turn, &addressed.target, now).await
        }
        Some(_) | None => Ok(()),
    }
}

/// The task that a message is has ended with the turn.
async fn end_task(
    transaction: &Transaction<'_>,
    stored: &StoredItem,
    turn: &TurnEnd,
) -> Result<(), Failure> {
    let Some(id) = stored.sender.as_ref().and_then(|sender| sender.task()) else { return Ok(()) };
    let ending = dispatch_end::of_turn(transaction, turn).await?;
    dispatch_end::end(transaction, id, ending).await
}

async fn end_failed(
    transaction: &Transaction<'_>,
    turn: &TurnEnd,
    failed: Option<(FailedReason, Vec<String>)>,
    now: i64,
) -> Result<(), Failure> {
    let Some((reason, ids)) = failed else { return Ok(()) };
    let detail = turn.error.as_ref().map(|error| error.message.as_str());
    item_rows::end(transaction, &ids, &turn.turn_id, Some((reason, detail)), now).await
}

async fn add_delivery(
    transaction: &Transaction<'_>,
    turn: &TurnEnd,
    target: &str,
    now: i64,
) -> Result<(), Failure> {
    let text =
        "insert into @deliveries (turn_id, session_label, target_json, status, not_before, created_at)
       values ($1, $2, $3, 'pending', $4, $4)";
    let params: [Param<'_>; 4] = [
        (&turn.turn_id, Type::TEXT),
        (&turn.header.session_label, Type::TEXT),
        (&target, Type::TEXT),
        (&now, Type::INT8),
    ];
    transaction.exec(text, &params).await.map(drop)
}

/// Whether messages wait that a turn is to take.
pub(crate) async fn still_wait(
    server: &Server,
    client: &Client,
    opening: &TurnOpening,
) -> Result<bool, Failure> {
    let text = "select count(*) = cardinality($1) + cardinality($2) as all_wait from @queue_items
       where turn_id is null and ((id = any($1) and status = 'pending') or (id = any($2) and is_summarized))";
    let params: [Param<'_>; 2] =
        [(&opening.items, Type::TEXT_ARRAY), (&opening.named, Type::TEXT_ARRAY)];
    let row = client.query_typed_one(&server.sql(text), &params).await?;
    Ok(get(&row, "all_wait")?)
}
