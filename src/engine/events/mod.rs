//! The events of a run on their way to their reader.
//!
//! It must never know who reads.

mod live;
mod queue;

pub(crate) use live::ReachableRun;
pub use queue::{Batch, EventQueue, MERGE_ABOVE, Notify, RECORD_BYTES, RecordKind};
