//! What a run holds: data that the other inner rooms read and change.
//!
//! It must never use another inner room.

pub(crate) mod bounds;
pub(crate) mod control;
pub(crate) mod lanes;
pub(crate) mod recorder;
pub(crate) mod usage;
