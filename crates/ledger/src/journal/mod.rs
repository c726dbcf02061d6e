//! Commit points: a turn as it is opened, recorded, compacted and committed, and what the engine persists beside turns.
//! It must never answer before the transaction is on disk.

pub(crate) mod cache_chain;
pub(crate) mod calibration;
pub(crate) mod commit;
pub(crate) mod compaction;
pub(crate) mod open_turn_reads;
pub(crate) mod open_turns;
pub(crate) mod profiles;
pub(crate) mod write;
