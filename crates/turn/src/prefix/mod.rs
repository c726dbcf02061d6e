//! The prefix of a session's requests as decisions: its chain of hashes, where two chains part, and what a provider should
//! have read from its cache (docs/rules/compaction.md#prompt-cache-stability).
//!
//! Pure: it gets what was sent and what the provider reported. It must never call a cache broken that was never there.

mod diff;
mod judge;
mod link;

pub use judge::{Rules, judge};
pub use link::{level_of, link, named, settings, text, tool};

#[cfg(test)]
mod tests;
