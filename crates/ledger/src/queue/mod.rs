//! The queues of a broker: the tables `queue_items`, `queue_events` and `queue_suspensions`.
//!
//! `crates/broker` decides what is admitted and what becomes of a message; it must never be decided here.

pub(crate) mod changes;
pub(crate) mod enqueue;
pub(crate) mod item_rows;
pub(crate) mod reads;
pub(crate) mod turn_items;
