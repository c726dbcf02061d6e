//! Names of sessions, what a host sets on them, and where it moves them.
//!
//! It must never write a turn, except the copy of one.

pub(crate) mod aliases;
pub(crate) mod changes;
pub(crate) mod fork_at;
pub(crate) mod moves;
pub(crate) mod personas;
