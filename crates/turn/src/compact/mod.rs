//! Compaction as decisions: when, which turns stay, what the summariser reads, and whether its summary is accepted
//! (docs/rules/compaction.md#proactive-trigger).
//!
//! Pure: it calls no model and writes nothing. It must never cut between a tool call and its result.

mod budget;
mod chunk;
mod cut;
mod facts;
mod prompt;
mod quality;
mod serialise;

pub use budget::{Budget, Guard, GuardVerdict, Trigger, share};
pub use chunk::{Part, chunks};
pub use cut::{Cut, Size, cut, groups};
pub use facts::Facts;
pub use prompt::{Task, instructions, merge_request, request, retry_request};
pub use quality::{Flaw, Judged, judge};
pub use serialise::{parts, truncate_results};

#[cfg(test)]
mod tests;
