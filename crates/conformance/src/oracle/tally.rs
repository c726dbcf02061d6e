//! Counts the executed steps by kind. It must never judge them.

use std::collections::BTreeMap;

/// The executed steps of a run of the proof, by kind, which shows what was never reached.
pub(super) type Tally = BTreeMap<&'static str, usize>;
