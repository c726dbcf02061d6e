//! Whether a host may move a session's pointer: the rule that every ledger applies.
//!
//! It must never allow a move under a turn that runs or waits, nor to a turn outside the session's tree.

use model::{StorageError, StorageErrorKind};

/// Where a host moves a session.
#[derive(Debug, Clone, Copy)]
pub struct PointerMove<'a> {
    /// The session.
    pub label: &'a str,
    /// The turn at which it will point.
    pub turn_id: &'a str,
    /// The head that the host has seen; any where it names none.
    pub expected: Option<&'a str>,
}

/// What the ledger found.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The session's head.
    pub head: Option<&'a str>,
    /// Whether the turn ran in the session, or is an ancestor of a turn at which the session has pointed.
    pub in_tree: bool,
    /// Whether a turn of the session runs.
    pub runs: bool,
    /// Whether a turn of the session waits for an approval.
    pub parked: bool,
}

impl PointerMove<'_> {
    /// Whether the pointer moves; false where it points at the turn already.
    ///
    /// # Errors
    /// `unknown_turn` outside the tree; `stale_head` where the head is another one than expected; `storage_locked` while a turn
    /// runs; `awaiting_approval` while one waits.
    pub fn decide(&self, found: Found<'_>) -> Result<bool, StorageError> {
        let Self { label, turn_id, expected } = *self;
        let refused = |kind, message| Err(StorageError::new(kind, message));
        if !found.in_tree {
            let message =
                format!("turn `{turn_id}` is not in the tree of session `{label}`; fork it");
            return refused(StorageErrorKind::UnknownTurn, message);
        }
        if found.head == Some(turn_id) {
            return Ok(false);
        }
        if let Some(expected) = expected.filter(|expected| found.head != Some(expected)) {
            let head = found.head.map_or_else(|| "no turn".to_owned(), |head| format!("`{head}`"));
            let message =
                format!("session `{label}` points at {head}, not at `{expected}`; read it again");
            return refused(StorageErrorKind::StaleHead, message);
        }
        if found.runs {
            let message = format!("a turn of session `{label}` runs; wait until it has ended");
            return refused(StorageErrorKind::Locked, message);
        }
        if found.parked {
            let message =
                format!("a turn of session `{label}` waits for an approval; decide it first");
            return refused(StorageErrorKind::AwaitingApproval, message);
        }
        Ok(true)
    }
}
