//! Counts the executed steps by kind. It must never check their results.

use std::collections::BTreeMap;

/// The executed steps of a run of the proof, by kind, which shows the kinds that were never reached.
pub(super) type Tally = BTreeMap<&'static str, usize>;
