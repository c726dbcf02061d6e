//! Commit points: opening, recording, compacting and committing a turn; and the data that the engine persists besides turns.
//! It must never acknowledge a write before its transaction is on disk.

pub(crate) mod cache_chain;
pub(crate) mod calibration;
pub(crate) mod commit;
pub(crate) mod compaction;
pub(crate) mod message_ids;
pub(crate) mod open_turn_reads;
pub(crate) mod open_turns;
pub(crate) mod profiles;
pub(crate) mod rates;
pub(crate) mod write;
