//! The steps of a copy of a ledger, as each of the two ledgers does them. It must never name a backend.

use crate::TransferProblem;

/// One step. A turn and a session are lines of the engine's JSONL.
#[derive(Debug, Clone)]
pub enum CopyStep {
    /// Lists ended turns after a number, parents before children.
    Ids {
        /// The number of the last one that is known.
        after: i64,
    },
    /// Finds those of the turns that this ledger does not have.
    Missing(Vec<String>),
    /// Reads turns.
    Turns(Vec<String>),
    /// Reads sessions.
    Sessions(Vec<String>),
    /// Lists the labels of all sessions.
    Labels,
    /// Writes lines in one transaction.
    Write(Vec<String>),
    /// Counts what a copy does not have.
    Left,
    /// Refuses new turns from now on, and says where the ledger is; or allows them again, unless it was moved for good.
    Fence(Option<String>),
    /// The ledger that refuses new turns was moved for good: it never allows them again.
    Finish,
}

/// The answer to a step.
#[derive(Debug, Clone, Default)]
pub struct CopyAnswer {
    /// Ids, labels or lines. A line of a turn that cannot be read is missing.
    pub list: Vec<String>,
    /// The number of the last turn of a list.
    pub last: i64,
    /// Turns that were written.
    pub turns: u64,
    /// Sessions whose newest turns are not there yet.
    pub behind: u64,
    /// Counts by kind.
    pub counts: Vec<(String, u64)>,
    /// What was changed or left out.
    pub problems: Vec<TransferProblem>,
}
