//! The end of a dispatch, in the transaction that ends its message: its status, and the message with its result for the
//! session that made it.
//!
//! It must never end a dispatch twice: exactly one result is written.

use broker::agents::{Ending, last_answer, result_item};
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::queue::dispatch_rows::{self, StoredDispatch};
use crate::queue::transaction::Transaction;
use crate::queue::{budgets, item_rows, links};
use crate::rows::turn_read::{MESSAGE, message};
use model::{DispatchKind, DispatchStatus, FailedReason, Message, TurnEnd};

/// The end of a dispatch with a turn that is written.
pub(crate) async fn of_turn(
    transaction: &Transaction<'_>,
    turn: &TurnEnd,
) -> Result<Ending, Failure> {
    if let Some(text) = Ending::text_of(turn) {
        return Ok(Ending::of_turn(turn, &text));
    }
    let text = format!("select {MESSAGE} from @messages where turn_id = $1 order by sequence");
    let rows = transaction.rows(&text, &[(&turn.turn_id, Type::TEXT)]).await?;
    let stored: Vec<Message> = rows.iter().map(message).collect::<Stored<_>>()?;
    Ok(Ending::of_turn(turn, &last_answer(&stored)))
}

/// Ends the dispatch of a message, if it is active. Its result is a message of the session that made it, unless a call waits for
/// it.
pub(crate) async fn end(
    transaction: &Transaction<'_>,
    id: &str,
    ending: Ending,
) -> Result<(), Failure> {
    let Some(stored) = dispatch_rows::of_id(transaction, id).await? else { return Ok(()) };
    let StoredDispatch { mut dispatch, inherited, parent_account } = stored;
    if dispatch.status != DispatchStatus::Active {
        return Ok(());
    }
    let clock = transaction.clock;
    ending.end(&mut dispatch, clock.now_ms());
    if dispatch.kind == DispatchKind::Dispatch {
        let id = clock.new_id();
        dispatch.result_item_id = Some(id.clone());
        let result = result_item(id, &clock.new_id(), &dispatch, inherited);
        item_rows::add(transaction, &result).await?;
    }
    dispatch_rows::end(transaction, &dispatch).await?;
    budgets::settle_task(transaction, &dispatch, parent_account.as_deref()).await?;
    budgets::close_tree(transaction, &dispatch.root_turn_id).await?;
    if dispatch.is_new {
        links::set_task_status(transaction, &dispatch.session_label, dispatch.status).await?;
    }
    Ok(())
}

/// Ends a waiting message without a turn, and its dispatch if it is a task. False if it does not wait, or was offered to a running
/// turn.
pub(crate) async fn fail(
    transaction: &Transaction<'_>,
    id: &str,
    (reason, detail): (FailedReason, Option<&str>),
    is_summarized: bool,
) -> Result<bool, Failure> {
    let failed = item_rows::fail(transaction, id, (reason, detail), is_summarized).await?;
    let Some(is_from_agent) = failed else { return Ok(false) };
    if is_from_agent {
        end(transaction, id, Ending::of_failure(reason, detail)).await?;
    }
    Ok(true)
}
