//! The port through which a host lists approvals and decides about them, and a parked run waits for a decision.
//!
//! A turn parks through [`crate::Journal::record`], in the same transaction as its approvals. It must never name a backend.

use crate::{Approval, ApprovalDecision, ApprovalFilter, OpenTurn, Page, PortFuture, TurnRow};

/// The approvals of a ledger. They are shared by its processes: any of them may decide.
pub trait ApprovalStore: Send + Sync {
    /// A page of the approvals that match a filter, oldest first. One that is overdue has expired.
    fn approvals(&self, filter: ApprovalFilter) -> PortFuture<'static, Page<Approval>>;

    /// An approval by its id.
    fn approval(&self, id: &str) -> PortFuture<'static, Option<Approval>>;

    /// Decides about an approval, if nobody has. Returns it as decided.
    ///
    /// # Errors
    /// `unknown_approval`; `already_decided`, which gives the earlier decision; any of storage.
    fn decide(&self, decision: ApprovalDecision) -> PortFuture<'static, Approval>;

    /// Waits until one of the approvals that a parked turn waits for is decided or has expired, or the turn has ended.
    fn unparked(&self, turn_id: &str, waits_for: Vec<String>) -> PortFuture<'static, Unparked>;

    /// The turn of an approval as it is stored, whether or not it runs; `None` once it has ended.
    fn open_turn(&self, turn_id: &str) -> PortFuture<'static, Option<Box<OpenTurn>>>;

    /// How a turn has ended that was parked: waits for its end, if another process runs it.
    ///
    /// # Errors
    /// `unknown_turn` where the ledger does not have it any more; any of storage.
    fn ended_turn(&self, turn_id: &str, after: u64) -> PortFuture<'_, EndedTurn>;

    /// The turn that a session is parked in: it has no lease, and waits for a decision.
    fn parked_turn(&self, session_label: &str) -> PortFuture<'static, Option<String>>;
}

/// Why a parked turn waits no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unparked {
    /// Somebody has decided about a call, or nobody in time.
    Decided,
    /// Its turn has ended.
    Ended,
}

/// How a turn has ended.
#[derive(Debug)]
pub struct EndedTurn {
    /// Its events after a number, as JSON; empty where events are not stored.
    pub events: Vec<String>,
    /// Its row.
    pub turn: Box<TurnRow>,
}
