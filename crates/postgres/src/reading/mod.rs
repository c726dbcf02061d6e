//! What a host reads: sessions, turns, their tree, calls, runs and sums.
//!
//! No list is without an end. It must never show a turn that has not ended, except as one turn by its id.

pub(crate) mod diff;
pub(crate) mod filters;
pub(crate) mod query;
pub(crate) mod recall;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod tree;
pub(crate) mod turns;
pub(crate) mod usage;
pub(crate) mod usage_report;
