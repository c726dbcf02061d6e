//! The pure decisions of a turn. It must never do I/O, await, or read a clock.

mod accumulate;
pub(crate) mod calibration;
pub(crate) mod compact;
pub(crate) mod estimate;
pub mod fallback;
pub(crate) mod governor;
pub mod machine;
pub(crate) mod prefix;
pub mod profiles;
pub(crate) mod prune;
pub(crate) mod retry;
pub(crate) mod spend;
pub(crate) mod transcript;
pub(crate) mod usage;

pub use accumulate::{Accumulated, Accumulator};
