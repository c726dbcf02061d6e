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

pub(crate) use budget::{Budget, Guard, GuardVerdict, Trigger, share};
pub(crate) use chunk::{Part, chunks};
pub(crate) use cut::{Cut, Size, cut, groups};
pub(crate) use facts::Facts;
pub(crate) use gate::{Flaw, Judged, judge};
pub(crate) use prompt::{Task, instructions, merge_request, request, retry_request};
pub(crate) use serialise::{parts, truncate_results};

#[cfg(test)]
mod tests;
