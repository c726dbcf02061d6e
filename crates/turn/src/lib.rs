//! The pure decisions of a turn. It must never do I/O, await, or read a clock.

mod accumulate;
pub mod calibration;
pub mod compact;
pub mod estimate;
pub mod fallback;
pub mod governor;
pub mod machine;
pub mod prefix;
pub mod profiles;
pub mod prune;
pub mod retry;
pub mod spend;
pub mod transcript;
pub mod usage;

pub use accumulate::{Accumulated, Accumulator};
