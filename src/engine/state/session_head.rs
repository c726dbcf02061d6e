//! Where a run writes: the head of its session, the journal of its turn, and its lane. It must never write.

use super::lanes::Lane;
use super::recorder::JournalState;

/// The position of a run's turn in its session.
pub(crate) struct SessionHead {
    /// The head that the run has read; the commit compares it.
    pub(crate) expected_head: Option<String>,
    pub(crate) parent_turn_id: Option<String>,
    /// Declared before the lane: the lease is released while the run still has the lane.
    pub(crate) journal: JournalState,
    pub(crate) lane: Option<Lane>,
}

impl SessionHead {
    /// A turn that is written only at its end, after `parent`.
    pub(crate) fn new(expected_head: Option<String>, parent_turn_id: Option<String>) -> Self {
        Self { expected_head, parent_turn_id, journal: JournalState::AtEnd, lane: None }
    }
}
