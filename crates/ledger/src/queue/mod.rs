//! The queues of a broker and its outbox: the tables `queue_items`, `queue_events`, `queue_suspensions`, `deliveries`,
//! `schedules` and `dispatches`.
//!
//! `crates/broker` decides what is admitted and what becomes of a message or a delivery; it must never be decided here.

pub(crate) mod agent_messages;
pub(crate) mod changes;
pub(crate) mod deliveries;
pub(crate) mod delivery_rows;
pub(crate) mod dispatch_changes;
pub(crate) mod dispatch_end;
pub(crate) mod dispatch_rows;
pub(crate) mod enqueue;
pub(crate) mod item_rows;
pub(crate) mod reads;
pub(crate) mod schedules;
pub(crate) mod task_budgets;
pub(crate) mod turn_items;
