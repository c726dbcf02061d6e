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
    /// Refuses new turns from now on for the call with this token, and says where the ledger is.
    Fence {
        /// Where the ledger is.
        place: String,
        /// That of the call.
        token: String,
    },
    /// Allows them again where the call with this token refuses them, unless the ledger was moved for good.
    Release(String),
    /// The ledger that the call with this token has closed was moved for good: it never allows them again.
    Finish(String),
    /// Reads the id of the ledger, and its mark if there is one.
    Identity,
    /// Sets the mark, by which a copy knows whether its target is the ledger itself.
    Mark(String),
    /// Lists rows after one.
    Rows(CopiedTable, Vec<String>),
    /// Finds those of the rows that this ledger does not have.
    MissingRows(CopiedTable, Vec<Vec<String>>),
    /// Writes rows.
    WriteRows(CopiedTable, Vec<Vec<String>>),
}

/// A table that is copied row by row: its columns are texts and, as the last one, a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopiedTable {
    /// The turns and facts that the memory has forgotten.
    Forgotten,
    /// The events whose messages were queued.
    Events,
    /// The sessions whose queues are suspended.
    Suspensions,
}

impl CopiedTable {
    /// Its name, its columns, and how many of them are the key.
    #[must_use]
    pub const fn parts(self) -> (&'static str, &'static [&'static str], usize) {
        match self {
            Self::Forgotten => ("memory_forgotten", &["kind", "id", "forgotten_at"], 2),
            Self::Events => {
                let columns = &["channel", "account", "event_id", "item_id", "created_at"];
                ("queue_events", columns, 3)
            }
            Self::Suspensions => ("queue_suspensions", &["session_label", "created_at"], 1),
        }
    }
}

/// The answer to a step.
#[derive(Debug, Clone, Default)]
pub struct CopyAnswer {
    /// Ids, labels or lines. A line of a turn that cannot be read is missing.
    pub list: Vec<String>,
    /// The number of the last turn of a list; of lines of turns, how many of the turns were read.
    pub last: i64,
    /// Rows of a table, each with its columns as texts.
    pub rows: Vec<Vec<String>>,
    /// Turns that were written.
    pub turns: u64,
    /// Sessions whose newest turns are not there yet.
    pub behind: u64,
    /// Counts by kind.
    pub counts: Vec<(String, u64)>,
    /// What was changed or left out.
    pub problems: Vec<TransferProblem>,
}
