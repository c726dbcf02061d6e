//! The rows of tasks that agents give each other: a new dispatch with its message, its end, and the message with its result.
//!
//! A ledger stores them, each end once. It must never read a clock nor make an id.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::agents::{TaskEnd, agent_message, capped, result_message, task_end};
use model::{
    AgentMessageKind, AgentTask, Dispatch, DispatchCancel, DispatchStatus, FailedReason,
    ItemStatus, MessageSender, NewAgentMessage, NewItem, QueueItem, QueueMode, QueueTarget, Role,
    Route, SpendingLimits, StoredItem, TokenUsage, TurnEnd,
};

/// Who sends the message with a result.
const RESULT_SOURCE: &str = "worker";
/// Who sends the messages of agents.
const SOURCE: &str = "agent";

/// What the messages of a turn have of the user for whom it runs: the message with a task's result inherits it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inherited {
    /// Where the answer goes.
    pub route: Route,
    /// The user with their permissions.
    pub principal: String,
    /// The request: JSON.
    pub request: String,
}

impl Inherited {
    /// That of a turn with these messages.
    #[must_use]
    pub fn of(own: &[StoredItem]) -> Self {
        match own.first() {
            Some(first) => Self {
                route: first.item.route.clone(),
                principal: first.item.principal.clone(),
                request: first.request.clone(),
            },
            None => Self {
                route: Route::default(),
                principal: "{}".to_owned(),
                request: "{}".to_owned(),
            },
        }
    }
}

/// How a dispatch has ended.
#[derive(Debug, Clone)]
pub struct Ending {
    status: DispatchStatus,
    turn_id: Option<String>,
    text: String,
    usage: Option<TokenUsage>,
    cost: Option<f64>,
}

impl Ending {
    /// Without a turn.
    #[must_use]
    pub fn without_turn(end: TaskEnd, text: &str) -> Self {
        let status = task_end(end);
        Self { status, turn_id: None, text: text.to_owned(), usage: None, cost: None }
    }

    /// The end of a message that waited, and has failed for this reason.
    #[must_use]
    pub fn of_failure(reason: FailedReason, detail: Option<&str>) -> Self {
        let (end, text) = match reason {
            FailedReason::Cancelled => (TaskEnd::Cancelled, "The task was cancelled."),
            FailedReason::Dropped => (TaskEnd::Failed, "The task was dropped: the queue is full."),
            FailedReason::Rejected
            | FailedReason::RunFailed
            | FailedReason::Interrupted
            | FailedReason::Poisoned => (TaskEnd::Failed, "The task could not begin."),
        };
        Self::without_turn(end, detail.unwrap_or(text))
    }

    /// The text with which a turn ends its task; `None` where that is an answer that was written before the end.
    #[must_use]
    pub fn text_of(turn: &TurnEnd) -> Option<String> {
        let status = task_end(TaskEnd::Turn(turn.stop_reason));
        if let (Some(error), DispatchStatus::Error | DispatchStatus::Timeout) =
            (&turn.error, status)
        {
            return Some(error.message.clone());
        }
        let Some(id) = &turn.response_message_id else { return Some(String::new()) };
        let last = turn.messages.iter().find(|message| message.id == *id);
        last.map(model::Message::content)
    }

    /// With a turn that is written.
    #[must_use]
    pub fn of_turn(turn: &TurnEnd, text: &str) -> Self {
        Self {
            status: task_end(TaskEnd::Turn(turn.stop_reason)),
            turn_id: Some(turn.turn_id.clone()),
            text: capped(text),
            usage: Some(turn.usage),
            cost: turn.cost,
        }
    }

    /// Ends the dispatch.
    pub fn end(self, dispatch: &mut Dispatch, now: i64) {
        dispatch.status = self.status;
        dispatch.turn_id = self.turn_id;
        dispatch.text = Some(self.text);
        dispatch.usage = self.usage;
        dispatch.cost = self.cost;
        dispatch.ended_at = Some(now);
    }
}

/// The text of the last answer among stored messages.
#[must_use]
pub fn last_answer(stored: &[model::Message]) -> String {
    let last = stored.iter().rfind(|message| message.role == Role::Assistant);
    last.map(model::Message::content).unwrap_or_default()
}

/// The message with the result of a dispatch that has ended. The turn that made it was aborted: then nothing follows from it, and the
/// message only shows what became of it.
#[must_use]
pub fn result_item(
    id: String,
    message_id: &str,
    dispatch: &Dispatch,
    inherited: Inherited,
) -> StoredItem {
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
        source: RESULT_SOURCE.to_owned(),
        message: result_message(message_id, dispatch),
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

/// The status of a dispatch as that of its session's task.
#[must_use]
pub fn task_status(status: DispatchStatus) -> &'static str {
    match status {
        DispatchStatus::Active => "running",
        DispatchStatus::Ok => "completed",
        DispatchStatus::Error | DispatchStatus::Timeout => "failed",
        DispatchStatus::Aborted => "aborted",
    }
}

/// The depth to which a message of a turn adds, for the dispatch that it belongs to.
#[must_use]
pub fn depth_of(sender: &MessageSender, dispatch: &Dispatch) -> u32 {
    let is_task = sender.kind == AgentMessageKind::Task;
    if is_task { dispatch.depth } else { dispatch.depth.saturating_sub(1) }
}

/// The dispatch of a new task. `root` is the turn at the top of the tree.
#[must_use]
pub fn new_dispatch(
    (new, task): (&NewAgentMessage, &AgentTask),
    (session_label, root): (&str, String),
    (depth, hops): (u32, u32),
    limits: SpendingLimits,
    now: i64,
) -> Dispatch {
    Dispatch {
        id: new.id.clone(),
        kind: task.kind,
        status: DispatchStatus::Active,
        parent_session: new.from_session.clone(),
        parent_turn_id: new.from_turn.clone(),
        root_turn_id: root,
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
        max_tokens: limits.tokens,
        max_cost: limits.cost(),
    }
}

/// The message of a queue for a new message of an agent. `own` are the messages of the turn that sends it.
#[must_use]
pub fn new_message(
    new: &NewAgentMessage,
    session_label: &str,
    own: &[StoredItem],
    hops: u32,
    message_id: &str,
) -> NewItem {
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
    let is_plain = new.task.as_ref().is_some_and(|task| task.is_new);
    let message = if is_plain {
        json!({ "role": "user", "content": new.message }).to_string()
    } else {
        agent_message(message_id, &sender, &new.message)
    };
    let Inherited { route, principal, request } = Inherited::of(own);
    NewItem {
        item: QueueItem {
            id: new.id.clone(),
            mode: new.mode,
            route,
            principal,
            is_system: false,
            tries: 0,
            failures: 0,
            not_before: 0,
        },
        to: QueueTarget::Session(session_label.to_owned()),
        source: SOURCE.to_owned(),
        message,
        request: request_of(&request, new, own),
        event_id: None,
        sender: Some(Box::new(sender)),
    }
}

/// The request of the new message: for the same user, but its answer goes nowhere else. A session that begins at this one's newest
/// turn has the messages of the running one, too.
fn request_of(inherited: &str, new: &NewAgentMessage, own: &[StoredItem]) -> String {
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
