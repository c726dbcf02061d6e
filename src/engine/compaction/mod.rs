//! Compaction: room is made before a call that would not fit, and after one that did not.
//!
//! It owns when, and what a failure means; what stays is `turn/compact`'s. A history is never replaced by less than a
//! summary that was checked and recorded, and nothing is written after an abort.

mod compactor;
mod errors;
mod make_room;
mod manual;
mod options;
mod plan;
mod pruning;
mod reproject;
mod running;
mod summarise;
mod summariser;
mod summary;

pub(crate) use compactor::{Compactor, compactor};
pub(crate) use errors::compaction_failure;
pub(crate) use make_room::{Compacted, make_room, recover};
pub(crate) use manual::ManualCompaction;
pub(crate) use manual::{ManualParts, compact_session};
pub(crate) use options::CompactionOptions;
pub(crate) use pruning::PruningOptions;
pub(crate) use pruning::prune;
pub(crate) use reproject::reproject;
