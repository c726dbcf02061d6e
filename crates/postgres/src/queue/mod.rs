//! The queues of a broker and what belongs to them: the outbox, schedules, tasks of agents, approvals, budgets, prompts' files.
//!
//! `crates/broker` decides what becomes of a message; it must never be decided here.

pub(crate) mod agent_messages;
pub(crate) mod approvals;
pub(crate) mod budgets;
pub(crate) mod changes;
pub(crate) mod deliveries;
pub(crate) mod dispatch_changes;
pub(crate) mod dispatch_end;
pub(crate) mod dispatch_rows;
pub(crate) mod enqueue;
pub(crate) mod item_rows;
pub(crate) mod links;
pub(crate) mod prompts;
pub(crate) mod schedules;
pub(crate) mod transaction;
pub(crate) mod turn_end;
