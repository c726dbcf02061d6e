//! The pure decisions of a turn. It must never do I/O, await, or read a clock.

mod accumulate;
pub mod calibration;
pub mod compact;
pub mod context_walk;
pub mod estimate;
pub mod fallback;
pub mod governor;
pub mod lease;
pub mod machine;
pub mod permits;
pub mod prefix;
pub mod profiles;
pub mod prune;
pub mod removal;
pub mod retry;
pub mod spend;
pub mod stale_head;
pub mod transcript;
pub mod usage;

pub use accumulate::{Accumulated, Accumulator};
