//! Compaction: before a call that would not fit, and after one that did not.
//!
//! It owns when to compact and the handling of failures; `turn/compact` decides which turns stay. It must never replace a
//! history by a summary that was not checked and recorded, nor write after an abort.

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
