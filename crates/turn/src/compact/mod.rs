//! Compaction as decisions: when, what stays, what the summariser reads, and whether its summary will do (docs/rules/compaction.md#proactive-trigger).
//!
//! Pure: it asks no model and writes nothing. A cut never falls between a tool call and its result.

mod budget;
mod chunk;
mod cut;
mod facts;
mod gate;
mod prompt;
mod serialise;

pub use budget::{Budget, Guard, GuardVerdict, Trigger, share};
pub use chunk::{Part, chunks};
pub use cut::{Cut, Size, cut, groups};
pub use facts::Facts;
pub use gate::{Flaw, Judged, judge};
pub use prompt::{Task, instructions, merge_request, request, retry_request};
pub use serialise::{parts, truncate_results};

#[cfg(test)]
mod tests;
