//! What an agent gives another one: a dispatch with its status, and who has sent a message of a queue.
//!
//! It must never decide anything: `crates/broker` does.

use serde::{Deserialize, Serialize};

use crate::{SpendingLimits, TokenUsage, TurnBudget};

/// How an agent gets the answer of the one that it gives a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum DispatchKind {
    /// The call waits: the answer is its result.
    Spawn,
    /// The answer is a message of its session's queue.
    Dispatch,
}

/// What became of a dispatch so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum DispatchStatus {
    /// It waits or runs.
    Active,
    /// The agent has answered.
    Ok,
    /// Its turn failed, or could not begin.
    Error,
    /// Its time is over.
    Timeout,
    /// It was cancelled, or its turn was aborted.
    Aborted,
}

/// Why a dispatch is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum DispatchCancel {
    /// An agent or the host has cancelled it.
    Requested,
    /// The turn that waited for it has ended, or the turn that made it was aborted.
    ParentEnded,
}

/// A task that one agent has given another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Dispatch {
    /// Its id: the engine's ULID of the call that made it, and the id of its message in the queue.
    pub id: String,
    /// How the answer gets back.
    pub kind: DispatchKind,
    /// What became of it so far.
    pub status: DispatchStatus,
    /// The session that made it.
    pub parent_session: String,
    /// The turn that made it.
    pub parent_turn_id: String,
    /// The turn at the top of the tree: no dispatch began it.
    pub root_turn_id: String,
    /// The session that has it.
    pub session_label: String,
    /// The agent that has it.
    pub agent_id: String,
    /// The model that it has instead of its agent's.
    pub model: Option<String>,
    /// Whether the session was made for it.
    pub is_new: bool,
    /// How many dispatches it is away from a session that nobody dispatched to.
    pub depth: u32,
    /// How many messages between agents it follows.
    pub hops: u32,
    /// Whether it goes on when the turn that made it is aborted.
    pub is_detached: bool,
    /// Why it is cancelled; null for one that is not.
    pub cancelled: Option<DispatchCancel>,
    /// When its time is over, in Unix milliseconds; null for no limit.
    pub deadline: Option<i64>,
    /// The turn that has answered it.
    pub turn_id: Option<String>,
    /// The answer, or why there is none; null while it is active.
    pub text: Option<String>,
    /// The tokens of its turn.
    pub usage: Option<TokenUsage>,
    /// What its turn cost, in US dollars; null where that is unknown.
    pub cost: Option<f64>,
    /// The message of the queue that has its result, for the kind `dispatch`.
    pub result_item_id: Option<String>,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds.
    pub ended_at: Option<i64>,
    /// The tokens that it may spend, with the tasks that it gives; null for no limit of its own.
    pub max_tokens: Option<u64>,
    /// The same in US dollars.
    pub max_cost: Option<f64>,
}

impl Dispatch {
    /// The budget of the turn that has it.
    #[must_use]
    pub fn budget(&self) -> Option<TurnBudget> {
        let limits = SpendingLimits::of(self.max_tokens, self.max_cost);
        let account = || format!("task:{}", self.id);
        (!limits.is_none()).then(|| TurnBudget { account: account(), limits })
    }
}

/// What a message from an agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum AgentMessageKind {
    /// A task whose answer goes back.
    Task,
    /// A message.
    Message,
    /// The result of a task.
    WorkerResult,
}

/// The agent that has sent a message of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct MessageSender {
    /// What the message is.
    pub kind: AgentMessageKind,
    /// Its session.
    pub from_session: String,
    /// Its turn; absent for the result of a task without a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_turn: Option<String>,
    /// The agent.
    pub from_agent: String,
    /// How many messages between agents this one follows, itself included.
    pub hops: u32,
    /// The dispatch of a task or of its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_id: Option<String>,
    /// How the task has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DispatchStatus>,
    /// The tokens of its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
}

impl MessageSender {
    /// The task that the message is.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        self.dispatch_id.as_deref().filter(|_| self.kind == AgentMessageKind::Task)
    }
}

/// How many children an agent may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubagentLimits {
    /// How deep dispatches may be.
    pub max_depth: u32,
    /// How many dispatches one turn may make.
    pub max_children: u32,
    /// How many dispatches of one session may be active at once.
    pub max_concurrent: u32,
}

names!(DispatchKind { Spawn = "spawn", Dispatch = "dispatch" });
names!(DispatchStatus {
    Active = "active",
    Ok = "ok",
    Error = "error",
    Timeout = "timeout",
    Aborted = "aborted",
});
names!(DispatchCancel { Requested = "requested", ParentEnded = "parent_ended" });
