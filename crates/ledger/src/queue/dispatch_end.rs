//! The end of a dispatch, in the transaction that ends its message: its status, and the message with its result for the
//! session that made it.
//!
//! It must never end a dispatch twice: exactly one result is written.

use broker::agents::{TaskEnd, capped, result_message, task_end};
use rusqlite::Connection;

use crate::journal_rows::budget_rows;
use crate::queue::dispatch_rows::{self, Inherited, StoredDispatch};
use crate::queue::{item_rows, task_budgets};
use crate::rows::message_rows;
use crate::sessions::pointers;
use crate::sqlite::error::Stored;
use base::clock::Clock;
use model::{
    AgentMessageKind, Dispatch, DispatchCancel, DispatchKind, DispatchStatus, FailedReason,
    ItemStatus, MessageSender, QueueItem, QueueMode, Role, StoredItem, TokenUsage, TurnEnd,
};

/// Who sends the message with a result.
const SOURCE: &str = "worker";

/// How a dispatch has ended.
pub(crate) struct Ending {
    pub(crate) status: DispatchStatus,
    pub(crate) turn_id: Option<String>,
    pub(crate) text: String,
    pub(crate) usage: Option<TokenUsage>,
    pub(crate) cost: Option<f64>,
}

impl Ending {
    /// Without a turn.
    pub(crate) fn without_turn(end: TaskEnd, text: &str) -> Self {
        let status = task_end(end);
        Self { status, turn_id: None, text: text.to_owned(), usage: None, cost: None }
    }

    /// With a turn that is written.
    pub(crate) fn of_turn(connection: &Connection, turn: &TurnEnd) -> Stored<Self> {
        let status = task_end(TaskEnd::Turn(turn.stop_reason));
        let text = match (&turn.error, status) {
            (Some(error), DispatchStatus::Error | DispatchStatus::Timeout) => error.message.clone(),
            _ => answer(connection, turn)?,
        };
        Ok(Self {
            status,
            turn_id: Some(turn.turn_id.clone()),
            text: capped(&text),
            usage: Some(turn.usage),
            cost: turn.cost,
        })
    }
}

/// The text of a turn's last answer.
fn answer(connection: &Connection, turn: &TurnEnd) -> Stored<String> {
    let Some(id) = &turn.response_message_id else { return Ok(String::new()) };
    let text = |message: &model::Message| message.content();
    if let Some(last) = turn.messages.iter().find(|message| message.id == *id) {
        return Ok(text(last));
    }
    let stored = message_rows::messages(connection, &turn.turn_id)?;
    let last = stored.iter().rfind(|message| message.role == Role::Assistant);
    Ok(last.map(text).unwrap_or_default())
}

/// Ends the dispatch of a message, if it is active. Its result is a message of the session that made it, unless a call waits for
/// it.
pub(crate) fn end(connection: &Connection, id: &str, ending: Ending, clock: &Clock) -> Stored<()> {
    let Some(stored) = dispatch_rows::of_id(connection, id)? else { return Ok(()) };
    let StoredDispatch { mut dispatch, inherited, parent_account } = stored;
    if dispatch.status != DispatchStatus::Active {
        return Ok(());
    }
    let now = clock.now_ms();
    dispatch.status = ending.status;
    dispatch.turn_id = ending.turn_id;
    dispatch.text = Some(ending.text);
    dispatch.usage = ending.usage;
    dispatch.cost = ending.cost;
    dispatch.ended_at = Some(now);
    if dispatch.kind == DispatchKind::Dispatch {
        let id = clock.new_id();
        dispatch.result_item_id = Some(id.clone());
        item_rows::add(connection, result(id, &dispatch, inherited, clock))?;
    }
    dispatch_rows::end(connection, &dispatch)?;
    task_budgets::settle(connection, &dispatch, parent_account.as_deref())?;
    budget_rows::close_tree(connection, &dispatch.root_turn_id)?;
    if dispatch.is_new {
        pointers::set_task_status(connection, &dispatch.session_label, dispatch.status)?;
    }
    Ok(())
}

/// The message with the result of a dispatch. The turn that made it was aborted: then nothing follows from it, and the message only
/// shows what became of it.
fn result(id: String, dispatch: &Dispatch, inherited: Inherited, clock: &Clock) -> StoredItem {
    let now = dispatch.ended_at.unwrap_or_default();
    let is_unwanted = dispatch.cancelled == Some(DispatchCancel::ParentEnded);
    StoredItem {
        item: QueueItem {
            id,
            mode: QueueMode::Followup,
            route: inherited.route,
            principal: inherited.principal,
            is_system: true,
            tries: 0,
            failures: 0,
            not_before: now,
        },
        session_label: dispatch.parent_session.clone(),
        source: SOURCE.to_owned(),
        message: result_message(&clock.new_id(), dispatch),
        request: inherited.request,
        event_id: None,
        sender: Some(Box::new(MessageSender {
            kind: AgentMessageKind::WorkerResult,
            from_session: dispatch.session_label.clone(),
            from_turn: dispatch.turn_id.clone(),
            from_agent: dispatch.agent_id.clone(),
            hops: dispatch.hops,
            dispatch_id: Some(dispatch.id.clone()),
            status: Some(dispatch.status),
            usage: dispatch.usage,
        })),
        status: if is_unwanted { ItemStatus::Failed } else { ItemStatus::Pending },
        reason: is_unwanted.then_some(FailedReason::Cancelled),
        detail: None,
        turn_id: None,
        created_at: now,
        claimed_at: None,
        delivered_at: None,
    }
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
        let (end, text) = match reason {
            FailedReason::Cancelled => (TaskEnd::Cancelled, "The task was cancelled."),
            FailedReason::Dropped => (TaskEnd::Failed, "The task was dropped: the queue is full."),
            FailedReason::Rejected
            | FailedReason::RunFailed
            | FailedReason::Interrupted
            | FailedReason::Poisoned => (TaskEnd::Failed, "The task could not begin."),
        };
        let ending = Ending::without_turn(end, detail.unwrap_or(text));
        self::end(connection, id, ending, clock)?;
    }
    Ok(true)
}
