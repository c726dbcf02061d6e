//! What a backend has for a transfer: the rows of turns and sessions in one transaction, read and written.
//!
//! It must never be called outside of the transaction for which it was made.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use crate::error::Stored;
use crate::record::{SessionRecord, TurnRecord};
use model::{Approval, CompactionResult, CopiedTable, SessionRow, StorageError, StorageErrorKind};

/// An answer of the rows. A file has it at once.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Stored<T>> + 'a>>;

/// The values of a parent from which those of its child follow.
#[derive(Debug, Clone)]
pub struct Parent {
    /// Its id.
    pub id: String,
    /// Its number, where the backend has one.
    pub n: i64,
    /// The number of its ancestors.
    pub depth: i64,
    /// The tokens of it and all its ancestors.
    pub thread_tokens: i64,
}

/// A session that exists.
#[derive(Debug, Clone)]
pub struct There {
    /// The turn that it points at.
    pub head: Option<String>,
    /// An import or a copy of it was interrupted.
    pub is_incomplete: bool,
    /// A turn runs in it.
    pub is_running: bool,
}

/// The mark in a transaction to which a refused record is undone.
#[derive(Debug, Clone, Copy)]
pub enum Mark {
    /// Before the record.
    Set,
    /// The record is written.
    Release,
    /// The record is undone.
    Undo,
}

/// The rows of a ledger, in one transaction.
pub trait Rows {
    /// The ended turns of a session with their ancestors, or of all sessions, with their parents, newest first.
    fn turns<'a>(&'a self, label: Option<&'a str>) -> Answer<'a, Vec<(String, Option<String>)>>;
    /// A page of all ended turns, parents before children: those after a number, with the number of the last.
    fn turns_after(&self, after: i64, most: i64) -> Answer<'_, (Vec<String>, i64)>;
    /// The turns that have not ended, of a session or of all.
    fn open_turns<'a>(&'a self, label: Option<&'a str>) -> Answer<'a, u64>;
    /// The turns of the context of a head.
    fn thread<'a>(&'a self, head: &'a str) -> Answer<'a, Vec<String>>;
    /// An ended turn; its approvals are read by themselves.
    fn turn<'a>(&'a self, id: &'a str) -> Answer<'a, TurnRecord>;
    /// The approvals of a turn.
    fn approvals<'a>(&'a self, turn: &'a str) -> Answer<'a, Vec<Approval>>;
    /// The labels of all sessions that readers see, in order.
    fn labels(&self) -> Answer<'_, Vec<String>>;
    /// A session with its log.
    fn session<'a>(&'a self, label: &'a str) -> Answer<'a, Option<SessionRecord>>;

    /// Those of the turns that the ledger does not have.
    fn missing<'a>(&'a self, turns: &'a [String]) -> Answer<'a, Vec<String>>;
    /// The number in the only row of a statement, in which `@` stands before each table.
    fn count<'a>(&'a self, statement: &'a str) -> Answer<'a, u64>;
    /// Refuses new turns, messages, schedules, names and facts for the call with this token, once those under way are written.
    ///
    /// # Errors
    /// `ledger_moved` for another place than the one to which it was moved for good.
    fn fence<'a>(&'a self, place: &'a str, token: &'a str) -> Answer<'a, ()>;
    /// Allows them again where that call refuses them, unless the refusal is final. Whether it did.
    fn release<'a>(&'a self, token: &'a str) -> Answer<'a, bool>;
    /// Makes the refusal of that call final; false where it does not refuse.
    fn finish_move<'a>(&'a self, token: &'a str) -> Answer<'a, bool>;
    /// The id of the ledger, and its mark if there is one.
    fn identity(&self) -> Answer<'_, Vec<String>>;
    /// Sets the mark. True.
    fn set_copy_mark<'a>(&'a self, mark: &'a str) -> Answer<'a, bool>;
    /// A page of the rows after the one with this key, or from the first one.
    fn rows_after<'a>(
        &'a self,
        of: CopiedTable,
        after: &'a [String],
    ) -> Answer<'a, Vec<Vec<String>>>;
    /// Those of the rows that are not there.
    fn missing_rows<'a>(
        &'a self,
        of: CopiedTable,
        rows: &'a [Vec<String>],
    ) -> Answer<'a, Vec<Vec<String>>>;
    /// Writes rows, in the place of those with the same keys. What is forgotten goes from the index.
    fn write_rows<'a>(&'a self, of: CopiedTable, rows: &'a [Vec<String>]) -> Answer<'a, ()>;

    /// Whether the ledger has the turn, ended or not.
    fn exists<'a>(&'a self, turn: &'a str) -> Answer<'a, bool>;
    /// The ended turn of that id as a parent.
    fn parent<'a>(&'a self, turn: &'a str) -> Answer<'a, Option<Parent>>;
    /// Whether `other` is an ancestor of `turn`.
    fn is_above<'a>(&'a self, turn: &'a str, other: &'a str) -> Answer<'a, bool>;
    /// The deepest turn of a session, the newest of several, and when it ended.
    fn deepest<'a>(&'a self, label: &'a str) -> Answer<'a, Option<(String, i64)>>;
    /// Whether there is such a session.
    fn there<'a>(&'a self, label: &'a str) -> Answer<'a, Option<There>>;

    /// Sets, releases or returns to a mark.
    fn mark(&self, mark: Mark) -> Answer<'_, ()>;
    /// Creates a session that readers do not see.
    fn create<'a>(&'a self, label: &'a str, now: i64) -> Answer<'a, ()>;
    /// Writes a turn with everything that belongs to it, except its compaction.
    fn insert<'a>(&'a self, turn: &'a TurnRecord, parent: Option<&'a Parent>) -> Answer<'a, ()>;
    /// Writes the row of a compaction.
    fn compaction<'a>(&'a self, turn: &'a str, result: &'a CompactionResult) -> Answer<'a, ()>;
    /// Writes all columns of a session, and makes it visible.
    fn write_session<'a>(&'a self, row: &'a SessionRow) -> Answer<'a, ()>;
    /// Moves the pointer of a session, and makes it visible.
    fn point<'a>(&'a self, label: &'a str, turn: Option<&'a str>, at: i64) -> Answer<'a, ()>;
    /// Removes the log of a session. Whether there was one.
    fn forget_log<'a>(&'a self, label: &'a str) -> Answer<'a, bool>;
    /// Adds an entry to the log of a session.
    fn log<'a>(&'a self, label: &'a str, turn: &'a str, at: i64) -> Answer<'a, ()>;
}

/// The value of work on rows that have every answer at once.
///
/// # Errors
/// That of the work.
pub fn at_once<T>(work: impl Future<Output = Stored<T>>) -> Stored<T> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(StorageError::new(
            StorageErrorKind::Io,
            "a ledger in a file did not answer at once; report it",
        )),
    }
}
