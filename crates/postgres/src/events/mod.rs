//! The events of runs: stored in pieces, followed from here and from other processes, and the commands to runs.
//!
//! It must never acknowledge an event before it is stored.

pub(crate) mod announce;
pub(crate) mod commands;
pub(crate) mod flush;
pub(crate) mod follow;
pub(crate) mod live;
pub(crate) mod new_events;
pub(crate) mod trim;
pub(crate) mod waiting;
