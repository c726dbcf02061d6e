//! The events of a run on their way to their reader.
//!
//! It must never know who reads.

mod live;
mod queue;

pub(crate) use live::ReachableRun;
pub(crate) use queue::{Batch, EventQueue, Notify, RECORD_BYTES, RecordKind};
