//! What ends a dispatch from outside: a cancellation, the end of the turn that made it, its deadline.
//!
//! A turn under way is only marked here: its process aborts it. It must never end a dispatch whose message a turn has.

use broker::agents::{Ending, TaskEnd};

use crate::connect::error::Failure;
use crate::queue::dispatch_rows::{self, ACTIVE_IN_SESSION, OF_PARENT_TURN, OVERDUE};
use crate::queue::transaction::Transaction;
use crate::queue::{dispatch_end, item_rows, links};
use model::{
    Dispatch, DispatchCancel, DispatchKind, DispatchStatus, FailedReason, StopReason, TurnEnd,
};

/// The tools with which a turn makes dispatches.
const TOOLS: [&str; 2] = ["spawn_agent", "agent_send"];

/// Cancels a dispatch. Returns it as it is then.
pub(crate) async fn cancel(
    transaction: &Transaction<'_>,
    id: &str,
    why: DispatchCancel,
) -> Result<Option<Dispatch>, Failure> {
    dispatch_rows::cancel(transaction, id, why).await?;
    let Some(stored) = dispatch_rows::of_id(transaction, id).await? else { return Ok(None) };
    let is_active = stored.dispatch.status == DispatchStatus::Active;
    let why = (FailedReason::Cancelled, None);
    if is_active && dispatch_end::fail(transaction, id, why, false).await? {
        return Ok(dispatch_rows::of_id(transaction, id).await?.map(|ended| ended.dispatch));
    }
    Ok(Some(stored.dispatch))
}

/// Whether a turn may have made dispatches.
pub(crate) fn may_have_children(turn: &TurnEnd) -> bool {
    turn.settings.tools_available.iter().any(|tool| TOOLS.contains(&tool.as_str()))
        || turn.queue.as_ref().is_some_and(|queue| queue.is_interrupted)
}

/// A turn has ended: the sessions that it has made are linked with it, the dispatches that it waited for are cancelled, and those that
/// it made, if it was aborted. Returns whether it has made any.
pub(crate) async fn parent_ended(
    transaction: &Transaction<'_>,
    turn: &TurnEnd,
) -> Result<bool, Failure> {
    let children = dispatch_rows::read(transaction, OF_PARENT_TURN, &turn.turn_id).await?;
    let has_children = !children.is_empty();
    for child in children {
        if child.is_new {
            let call = (turn.turn_id.as_str(), child.id.as_str());
            links::link_turn(transaction, &child.session_label, call).await?;
        }
        let ends = match child.kind {
            DispatchKind::Spawn => true,
            DispatchKind::Dispatch => turn.stop_reason == StopReason::Aborted && !child.is_detached,
        };
        if ends && child.status == DispatchStatus::Active {
            cancel(transaction, &child.id, DispatchCancel::ParentEnded).await?;
        }
    }
    Ok(has_children)
}

/// A session is deleted: the tasks that wait there have ended, and their results go to the sessions that gave them.
pub(crate) async fn session_deleted(
    transaction: &Transaction<'_>,
    label: &str,
) -> Result<(), Failure> {
    for dispatch in dispatch_rows::read(transaction, ACTIVE_IN_SESSION, label).await? {
        if dispatch.parent_session != label {
            let text = "The session of the task was deleted.";
            let ending = Ending::without_turn(TaskEnd::Cancelled, text);
            dispatch_end::end(transaction, &dispatch.id, ending).await?;
        }
    }
    Ok(())
}

/// Ends the dispatches whose time is over before a turn has them. Returns their ids.
pub(crate) async fn end_overdue(transaction: &Transaction<'_>) -> Result<Vec<String>, Failure> {
    let mut ended = Vec::new();
    let now = transaction.clock.now_ms().to_string();
    let text = "The time of the task was over before it began.";
    for dispatch in dispatch_rows::read(transaction, OVERDUE, &now).await? {
        let why = (FailedReason::Cancelled, Some(text));
        // A turn that has it ends at its own limit.
        if item_rows::fail(transaction, &dispatch.id, why, false).await?.is_some() {
            let ending = Ending::without_turn(TaskEnd::Overdue, text);
            dispatch_end::end(transaction, &dispatch.id, ending).await?;
            ended.push(dispatch.id);
        }
    }
    Ok(ended)
}
