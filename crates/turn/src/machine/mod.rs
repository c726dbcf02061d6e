//! The loop of one turn as a sans-IO machine: events in, the next step out (docs/design/runs.md#the-loop).
//!
//! It owns the turn's messages and tool calls, and that every call gets exactly one result. It must never await, read a
//! clock or create an id: the driver does, and feeds back what happened.

mod calls;
mod feed;
pub mod planner;
mod protocol;
mod replies;
mod restore;
mod state;

#[cfg(test)]
mod tests;

pub use protocol::{
    CallState, Event, Interrupt, Outcome, PendingCall, Reply, Step, Tick, ToolFinish,
};
pub use state::Machine;
