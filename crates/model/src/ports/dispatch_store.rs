//! The port of messages between agents: tasks with their results, and plain messages.
//!
//! A task ends in the transaction that ends its message. A backend decides by `crates/broker` only.

use crate::{
    Dispatch, DispatchCancel, DispatchKind, PortFuture, QueueLimits, QueueMode, SpendingLimits,
    SubagentLimits, TurnBudget,
};

/// A message from one agent to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAgentMessage {
    /// The engine's ULID of the call that sends it: a second message with this id changes nothing.
    pub id: String,
    /// The session that sends it.
    pub from_session: String,
    /// The turn that sends it, which must be open.
    pub from_turn: String,
    /// The agent that sends it.
    pub from_agent: String,
    /// The session that gets it, by its label or an alias.
    pub to_session: String,
    /// The agent that gets it.
    pub to_agent: String,
    /// How it is delivered to a busy session.
    pub mode: QueueMode,
    /// The message: JSON.
    pub message: String,
    /// The task; `None` for a message.
    pub task: Option<AgentTask>,
}

/// A task for another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTask {
    /// How the answer gets back.
    pub kind: DispatchKind,
    /// The task as the parent has worded it.
    pub description: String,
    /// The limits of the agent that gives it.
    pub limits: SubagentLimits,
    /// Whether the session is made for it.
    pub is_new: bool,
    /// Whether that session begins at the newest turn of the session that gives it.
    pub is_fork: bool,
    /// The model that it has instead of its agent's.
    pub model: Option<String>,
    /// Its time in milliseconds.
    pub timeout_ms: Option<i64>,
    /// Whether it goes on when the turn that gives it is aborted.
    pub is_detached: bool,
    /// The budget of the agent that gets it.
    pub limits_of_agent: SpendingLimits,
    /// The budget of the turn that gives it, in which it is reserved.
    pub parent_budget: Option<TurnBudget>,
}

/// What became of a message of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentSent {
    /// It is stored, now or by an earlier call with its id.
    Stored {
        /// Its session.
        session_label: String,
        /// The messages that a full queue has dropped for it.
        dropped: Vec<String>,
    },
    /// It is not: the reason is for the agent that sends it.
    Refused(String),
}

/// What an agent or a host wants to know of dispatches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DispatchFilter {
    /// The session that made them.
    pub parent_session: Option<String>,
    /// The session that has them.
    pub session_label: Option<String>,
}

/// The messages between the agents of a ledger.
pub trait DispatchStore: Send + Sync {
    /// Stores a message, with its dispatch and its session where it is a task.
    fn send(
        &self,
        message: Box<NewAgentMessage>,
        limits: QueueLimits,
    ) -> PortFuture<'static, AgentSent>;

    /// The dispatch of that id.
    fn dispatch<'a>(&'a self, id: &'a str) -> PortFuture<'a, Option<Dispatch>>;

    /// The newest dispatches of a session, oldest first; at most 100.
    fn dispatches(&self, filter: DispatchFilter) -> PortFuture<'_, Vec<Dispatch>>;

    /// The dispatch for which a session was made.
    fn spawned<'a>(&'a self, session_label: &'a str) -> PortFuture<'a, Option<Dispatch>>;

    /// Whether a call in the session, or in one that it waits for, waits for a decision.
    fn is_parked<'a>(&'a self, session_label: &'a str) -> PortFuture<'a, bool>;

    /// Cancels a dispatch. One that no turn has is ended; the turn of another one is to be aborted. Returns it; `None` for one that
    /// does not exist.
    fn cancel_dispatch(
        &self,
        id: String,
        why: DispatchCancel,
    ) -> PortFuture<'static, Option<Dispatch>>;

    /// Whether the time of an active dispatch is over.
    fn has_overdue(&self) -> PortFuture<'_, bool>;

    /// Ends the dispatches that wait and whose time is over. Returns them.
    fn end_overdue(&self) -> PortFuture<'static, Vec<String>>;

    /// The active dispatches that are cancelled: their turns are to be aborted.
    fn cancelled(&self) -> PortFuture<'_, Vec<Dispatch>>;
}
