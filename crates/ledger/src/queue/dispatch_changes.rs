//! What ends a dispatch from outside: a cancellation, the end of the turn that made it, its deadline.
//!
//! A turn under way is only marked here: its process aborts it. It must never end a dispatch whose message a turn has.

use broker::agents::{Ending, TaskEnd};
use rusqlite::Connection;

use crate::queue::dispatch_end;
use crate::queue::dispatch_rows::{self, ACTIVE_IN_SESSION, OF_PARENT_TURN, OVERDUE};
use crate::queue::item_rows;
use crate::sessions::pointers;
use crate::sqlite::error::Stored;
use base::clock::Clock;
use model::{
    Dispatch, DispatchCancel, DispatchKind, DispatchStatus, FailedReason, ItemStatus, StopReason,
    TurnEnd,
};

/// The tools with which a turn makes dispatches.
const TOOLS: [&str; 2] = ["spawn_agent", "agent_send"];

/// Cancels a dispatch. Returns it as it is then.
pub(crate) fn cancel(
    connection: &Connection,
    id: &str,
    why: DispatchCancel,
    clock: &Clock,
) -> Stored<Option<Dispatch>> {
    dispatch_rows::cancel(connection, id, why)?;
    let Some(stored) = dispatch_rows::of_id(connection, id)? else { return Ok(None) };
    let dispatch = stored.dispatch;
    if dispatch.status == DispatchStatus::Active
        && dispatch_end::fail(connection, id, (FailedReason::Cancelled, None), false, clock)?
    {
        return Ok(dispatch_rows::of_id(connection, id)?.map(|ended| ended.dispatch));
    }
    Ok(Some(dispatch))
}

/// Whether a turn may have made dispatches.
pub(crate) fn may_have_children(turn: &TurnEnd) -> bool {
    turn.settings.tools_available.iter().any(|tool| TOOLS.contains(&tool.as_str()))
        || turn.queue.as_ref().is_some_and(|queue| queue.is_interrupted)
}

/// A turn has ended: the sessions that it has made are linked with it, the dispatches that it waited for are cancelled, and those that
/// it made, if it was aborted. Returns whether it has made any.
pub(crate) fn parent_ended(connection: &Connection, turn: &TurnEnd, clock: &Clock) -> Stored<bool> {
    let children = dispatch_rows::read(connection, &OF_PARENT_TURN, (&turn.turn_id,))?;
    let has_children = !children.is_empty();
    for child in children {
        if child.is_new {
            let call = (turn.turn_id.as_str(), child.id.as_str());
            pointers::link_turn(connection, &child.session_label, call)?;
        }
        let ends = match child.kind {
            DispatchKind::Spawn => true,
            DispatchKind::Dispatch => turn.stop_reason == StopReason::Aborted && !child.is_detached,
        };
        if ends && child.status == DispatchStatus::Active {
            cancel(connection, &child.id, DispatchCancel::ParentEnded, clock)?;
        }
    }
    Ok(has_children)
}

/// A session is deleted: the tasks that wait there have ended, and their results go to the sessions that gave them.
pub(crate) fn session_deleted(connection: &Connection, label: &str, clock: &Clock) -> Stored<()> {
    for dispatch in dispatch_rows::read(connection, &ACTIVE_IN_SESSION, (label,))? {
        if dispatch.parent_session != label {
            let text = "The session of the task was deleted.";
            let ending = Ending::without_turn(TaskEnd::Cancelled, text);
            dispatch_end::end(connection, &dispatch.id, ending, clock)?;
        }
    }
    Ok(())
}

/// Ends the dispatches whose time is over before a turn has them. Returns their ids.
pub(crate) fn end_overdue(connection: &Connection, clock: &Clock) -> Stored<Vec<String>> {
    let mut ended = Vec::new();
    for dispatch in dispatch_rows::read(connection, &OVERDUE, (clock.now_ms(),))? {
        let id = dispatch.id;
        let stored = item_rows::of_id(connection, &id)?;
        let waits =
            stored.is_some_and(|it| it.status == ItemStatus::Pending && it.turn_id.is_none());
        // A turn that has it ends at its own limit.
        if waits {
            let text = "The time of the task was over before it began.";
            dispatch_end::end(
                connection,
                &id,
                Ending::without_turn(TaskEnd::Overdue, text),
                clock,
            )?;
            item_rows::fail(connection, &id, FailedReason::Cancelled, Some(text), false)?;
            ended.push(id);
        }
    }
    Ok(ended)
}
