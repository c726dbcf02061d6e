//! A message from one agent to another one: its limits, the session that is made for it, its dispatch and its position in the
//! queue, in one transaction.
//!
//! It must never write a part of it: a refusal comes before the first row.

use broker::agents::{
    Ending, Inherited, Standing, TaskEnd, admit_message, admit_task, depth_of, new_dispatch,
    new_message,
};
use rusqlite::Connection;

use crate::journal_rows::run_rows::{self, RunRow};
use crate::lease::claim::Claim;
use crate::queue::dispatch_end;
use crate::queue::dispatch_rows::{self, ACTIVE, CHILDREN, ROOT, SPAWNED, StoredDispatch};
use crate::queue::{enqueue, item_rows, task_budgets};
use crate::sessions::{aliases, pointers};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{
    AgentSent, AgentTask, Enqueued, MessageSender, NewAgentMessage, QueueLimits, StoredItem,
};

/// Stores a message.
pub(crate) fn send(
    connection: &Connection,
    claim: &Claim,
    new: &NewAgentMessage,
    limits: QueueLimits,
) -> Stored<AgentSent> {
    if let Some(stored) = item_rows::of_id(connection, &new.id)? {
        let session_label = stored.session_label;
        return Ok(AgentSent::Stored { session_label, dropped: Vec::new() });
    }
    let own = item_rows::read(connection, &item_rows::OF_TURN, (&new.from_turn,))?;
    let standing = standing(connection, new, &own)?;
    let admitted = match &new.task {
        Some(task) => admit_task(standing, task.limits).map(|depth| (depth, standing.hops)),
        None => admit_message(standing).map(|hops| (0, hops)),
    };
    let (depth, hops) = match admitted {
        Ok(admitted) => admitted,
        Err(why) => return Ok(AgentSent::Refused(why)),
    };
    let session_label = aliases::resolve(connection, &new.to_session)?;
    if let Some(task) = &new.task {
        let (limits, parent_account) = match task_budgets::reserve(connection, task)? {
            Ok(reserved) => reserved,
            Err(why) => return Ok(AgentSent::Refused(why)),
        };
        if task.is_new {
            make_session(connection, claim, new, task)?;
        }
        let doing = "read the tree of a dispatch";
        let root: Option<String> = sql::optional(connection, ROOT, (&new.from_turn,), doing)?;
        let root = root.unwrap_or_else(|| new.from_turn.clone());
        let now = claim.clock.now_ms();
        let dispatch =
            new_dispatch((new, task), (&session_label, root), (depth, hops), limits, now);
        let inherited = Inherited::of(&own);
        dispatch_rows::add(connection, StoredDispatch { dispatch, inherited, parent_account })?;
    }
    let item = new_message(new, &session_label, &own, hops, &claim.clock.new_id());
    let dropped = match enqueue::enqueue(connection, claim, &item, limits)? {
        Enqueued::Queued { dropped, .. } => dropped,
        Enqueued::Duplicate { .. } => Vec::new(),
        Enqueued::Rejected { .. } => {
            let ending =
                Ending::without_turn(TaskEnd::Failed, "The task was rejected: the queue is full.");
            dispatch_end::end(connection, &new.id, ending, &claim.clock)?;
            Vec::new()
        }
    };
    Ok(AgentSent::Stored { session_label, dropped })
}

fn standing(
    connection: &Connection,
    new: &NewAgentMessage,
    own: &[StoredItem],
) -> Stored<Standing> {
    let run = run_rows::of_turn(connection, &new.from_turn)?;
    let spawned = dispatch_rows::read(connection, &SPAWNED, (&new.from_session,))?.pop();
    let mut depth = spawned.map_or(0, |spawned| spawned.depth);
    let senders: Vec<&MessageSender> = own.iter().filter_map(|it| it.sender.as_deref()).collect();
    for sender in &senders {
        let Some(id) = &sender.dispatch_id else { continue };
        if let Some(stored) = dispatch_rows::of_id(connection, id)? {
            let dispatch = stored.dispatch;
            depth = depth.max(depth_of(sender, &dispatch));
        }
    }
    let doing = "count the dispatches";
    Ok(Standing {
        is_open: run.as_ref().is_some_and(RunRow::is_open),
        depth,
        hops: senders.iter().map(|sender| sender.hops).max().unwrap_or(0),
        children: sql::one(connection, CHILDREN, (&new.from_turn,), doing)?,
        active: sql::one(connection, ACTIVE, (&new.from_session,), doing)?,
    })
}

/// The session of a task, linked with the call that makes it.
fn make_session(
    connection: &Connection,
    claim: &Claim,
    new: &NewAgentMessage,
    task: &AgentTask,
) -> Stored<()> {
    let label = &new.to_session;
    let head = pointers::head(connection, &new.from_session)?.flatten();
    let now = claim.clock.now_ms();
    pointers::create(connection, label, head.as_deref(), now, false)?;
    if task.is_fork
        && let Some(head) = &head
    {
        pointers::move_pointer(connection, label, head, now)?;
    }
    let link = pointers::Link {
        parent_session: &new.from_session,
        agent: &new.to_agent,
        task: &task.description,
    };
    pointers::link(connection, label, &link)
}
