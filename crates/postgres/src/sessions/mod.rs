//! Names of sessions, what a host sets on them, and where it moves them.
//!
//! It must never write a turn.

pub(crate) mod aliases;
pub(crate) mod changes;
pub(crate) mod moves;
pub(crate) mod personas;
