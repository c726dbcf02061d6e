//! The events of a run on their way to their reader.
//!
//! It must never know who reads.

pub(crate) mod queue;
