//! The pure decisions of a broker. It must never do I/O, await, or read a clock.

pub mod agents;
pub mod approvals;
mod one_line;
pub mod outbox;
pub mod prompt;
pub mod queue;
pub mod routing;
