//! What the sequences did, counted by kind. It must never judge it.

use std::collections::BTreeMap;

/// What a run of the proof did, by kind: so that it shows what was never reached.
pub(super) type Tally = BTreeMap<&'static str, usize>;
