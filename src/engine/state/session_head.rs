//! Where a run writes: the head of its session, the journal of its turn, and its lane.

use super::lanes::Lane;
use super::recorder::JournalState;

/// The position of a run's turn in its session.
pub(crate) struct SessionHead {
    /// The head that the run has read; the commit compares it.
    pub(crate) expected_head: Option<String>,
    pub(crate) parent_turn_id: Option<String>,
    /// Before the lane: the lease is released while the session is still this run's.
    pub(crate) journal: JournalState,
    pub(crate) lane: Option<Lane>,
}

impl SessionHead {
    /// A turn that is written at its end only, after `parent`.
    pub(crate) fn new(expected_head: Option<String>, parent_turn_id: Option<String>) -> Self {
        Self { expected_head, parent_turn_id, journal: JournalState::AtEnd, lane: None }
    }
}
