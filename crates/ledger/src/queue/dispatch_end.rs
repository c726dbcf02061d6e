//! The end of a dispatch, in the transaction that ends its message: its status, and the message with its result for the
//! session that made it.
//!
//! It must never end a dispatch twice: exactly one result is written.

use broker::agents::{Ending, last_answer, result_item};
use rusqlite::Connection;

use crate::journal_rows::budget_rows;
use crate::queue::dispatch_rows::{self, StoredDispatch};
use crate::queue::{item_rows, task_budgets};
use crate::rows::message_rows;
use crate::sessions::pointers;
use crate::sqlite::error::Stored;
use base::clock::Clock;
use model::{DispatchKind, DispatchStatus, FailedReason, TurnEnd};

/// The end of a dispatch with a turn that is written.
pub(crate) fn of_turn(connection: &Connection, turn: &TurnEnd) -> Stored<Ending> {
    let text = match Ending::text_of(turn) {
        Some(text) => text,
        None => last_answer(&message_rows::messages(connection, &turn.turn_id)?),
    };
    Ok(Ending::of_turn(turn, &text))
}

/// Ends the dispatch of a message, if it is active. Its result is a message of the session that made it, unless a call waits for
/// it.
pub(crate) fn end(connection: &Connection, id: &str, ending: Ending, clock: &Clock) -> Stored<()> {
    let Some(stored) = dispatch_rows::of_id(connection, id)? else { return Ok(()) };
    let StoredDispatch { mut dispatch, inherited, parent_account } = stored;
    if dispatch.status != DispatchStatus::Active {
        return Ok(());
    }
    ending.end(&mut dispatch, clock.now_ms());
    if dispatch.kind == DispatchKind::Dispatch {
        let id = clock.new_id();
        dispatch.result_item_id = Some(id.clone());
        item_rows::add(connection, result_item(id, &clock.new_id(), &dispatch, inherited))?;
    }
    dispatch_rows::end(connection, &dispatch)?;
    task_budgets::settle(connection, &dispatch, parent_account.as_deref())?;
    budget_rows::close_tree(connection, &dispatch.root_turn_id)?;
    if dispatch.is_new {
        pointers::set_task_status(connection, &dispatch.session_label, dispatch.status)?;
    }
    Ok(())
}

/// Ends a waiting message without a turn, and its dispatch if it is a task. False if it does not wait, or was offered to a running
/// turn.
pub(crate) fn fail(
    connection: &Connection,
    id: &str,
    (reason, detail): (FailedReason, Option<&str>),
    is_summarized: bool,
    clock: &Clock,
) -> Stored<bool> {
    let Some(is_from_agent) = item_rows::fail(connection, id, reason, detail, is_summarized)?
    else {
        return Ok(false);
    };
    if is_from_agent {
        let ending = Ending::of_failure(reason, detail);
        self::end(connection, id, ending, clock)?;
    }
    Ok(true)
}
