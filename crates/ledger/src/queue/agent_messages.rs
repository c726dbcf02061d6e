//! A message from one agent to another one: its limits, the session that is made for it, its dispatch and its position in the
//! queue, in one transaction.
//!
//! It must never write a part of it: a refusal comes before the first row.

use broker::agents::{Standing, TaskEnd, admit_message, admit_task, agent_message};
use rusqlite::Connection;
use serde_json::{Map, Value};

use crate::journal_rows::run_rows::{self, RunRow};
use crate::lease::claim::Claim;
use crate::queue::dispatch_end::{self, Ending};
use crate::queue::dispatch_rows::{
    self, ACTIVE, CHILDREN, Inherited, ROOT, SPAWNED, StoredDispatch,
};
use crate::queue::{enqueue, item_rows, task_budgets};
use crate::sessions::{aliases, pointers};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{
    AgentMessageKind, AgentSent, AgentTask, Dispatch, DispatchStatus, Enqueued, MessageSender,
    NewAgentMessage, NewItem, QueueItem, QueueLimits, QueueTarget, StoredItem,
};

/// Who sends the messages.
const SOURCE: &str = "agent";

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
    let inherited = inherited(&own);
    let sender = MessageSender {
        kind: if new.task.is_some() { AgentMessageKind::Task } else { AgentMessageKind::Message },
        from_session: new.from_session.clone(),
        from_turn: Some(new.from_turn.clone()),
        from_agent: new.from_agent.clone(),
        hops,
        dispatch_id: new.task.is_some().then(|| new.id.clone()),
        status: None,
        usage: None,
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
        let dispatch = Dispatch {
            root_turn_id: root,
            max_tokens: limits.tokens,
            max_cost: limits.cost(),
            ..dispatch(new, task, &session_label, (depth, hops), now)
        };
        let inherited = inherited.clone();
        dispatch_rows::add(connection, StoredDispatch { dispatch, inherited, parent_account })?;
    }
    let is_plain = new.task.as_ref().is_some_and(|task| task.is_new);
    let message = if is_plain {
        serde_json::json!({ "role": "user", "content": new.message }).to_string()
    } else {
        agent_message(&claim.clock.new_id(), &sender, &new.message)
    };
    let item = NewItem {
        item: QueueItem {
            id: new.id.clone(),
            mode: new.mode,
            route: inherited.route,
            principal: inherited.principal,
            is_system: false,
            tries: 0,
            failures: 0,
            not_before: 0,
        },
        to: QueueTarget::Session(session_label.clone()),
        source: SOURCE.to_owned(),
        message,
        request: request(&inherited.request, new, &own),
        event_id: None,
        sender: Some(Box::new(sender)),
    };
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
            let is_task = sender.kind == AgentMessageKind::Task;
            let of_it = if is_task { dispatch.depth } else { dispatch.depth.saturating_sub(1) };
            depth = depth.max(of_it);
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

/// What a turn's messages have of the user for whom it runs.
fn inherited(own: &[StoredItem]) -> Inherited {
    match own.first() {
        Some(first) => Inherited {
            route: first.item.route.clone(),
            principal: first.item.principal.clone(),
            request: first.request.clone(),
        },
        None => Inherited {
            principal: "{}".to_owned(),
            request: "{}".to_owned(),
            ..Inherited::default()
        },
    }
}

/// The request of the new message: for the same user, but its answer goes nowhere else. A session that begins at this one's newest
/// turn has the messages of the running one, too.
fn request(inherited: &str, new: &NewAgentMessage, own: &[StoredItem]) -> String {
    let mut request: Map<String, Value> = serde_json::from_str(inherited).unwrap_or_default();
    request.remove("target");
    request.remove("earlier");
    if new.task.as_ref().is_some_and(|task| task.is_fork) {
        let raw = |it: &StoredItem| serde_json::from_str::<Value>(&it.message).ok();
        let earlier: Vec<Value> = own.iter().filter_map(raw).collect();
        request.insert("earlier".to_owned(), Value::from(earlier));
    }
    Value::from(request).to_string()
}

fn dispatch(
    new: &NewAgentMessage,
    task: &AgentTask,
    session_label: &str,
    (depth, hops): (u32, u32),
    now: i64,
) -> Dispatch {
    Dispatch {
        id: new.id.clone(),
        kind: task.kind,
        status: DispatchStatus::Active,
        parent_session: new.from_session.clone(),
        parent_turn_id: new.from_turn.clone(),
        root_turn_id: new.from_turn.clone(),
        session_label: session_label.to_owned(),
        agent_id: new.to_agent.clone(),
        model: task.model.clone(),
        is_new: task.is_new,
        depth,
        hops,
        is_detached: task.is_detached,
        cancelled: None,
        deadline: task.timeout_ms.map(|ms| now.saturating_add(ms)),
        turn_id: None,
        text: None,
        usage: None,
        cost: None,
        result_item_id: None,
        created_at: now,
        ended_at: None,
        max_tokens: None,
        max_cost: None,
    }
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
