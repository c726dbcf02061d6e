//! The prefix of a session's requests as decisions: its chain of hashes, where two chains differ, and which tokens a
//! provider should have read from its cache (docs/rules/compaction.md#prompt-cache-stability).
//!
//! Pure: its input is what was sent and what the provider reported. It must never report a break of a cache that never
//! existed.

mod diff;
mod judge;
mod link;

pub use judge::{Rules, judge};
pub use link::{level_of, link, named, settings, text, tool};

#[cfg(test)]
mod tests;
