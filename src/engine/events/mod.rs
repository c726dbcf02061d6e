//! The events of a run until they are delivered.
//!
//! It must never know the reader.

mod batch;
mod live;
mod queue;
mod record;

pub(crate) use batch::RecordBatch;
pub(crate) use live::ReachableRun;
pub(crate) use queue::{Delivery, EventQueue, Notify};
pub(crate) use record::{RECORD_BYTES, RecordKind};
