//! Names of sessions, and what a host sets on them.
//!
//! It must never move a pointer.

pub(crate) mod aliases;
pub(crate) mod changes;
pub(crate) mod personas;
