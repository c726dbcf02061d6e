//! A job of the writer: the work inside a transaction, and the answer after its end. A panic of either is caught here.
//!
//! A job must never be answered twice, and never with success before its transaction is in the file.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::sqlite::error::{Stored, closed};
use model::{StorageError, StorageErrorKind};

/// Work that was submitted to the writer.
pub(crate) trait Job: Send {
    /// Does the work inside the transaction; may be called again after a rollback, or after it panicked. False if the job
    /// itself failed.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Whether it must run alone, outside of any transaction.
    fn alone(&self) -> bool {
        false
    }
    /// Answers the caller, with the transaction's failure if it had one.
    fn answer(self: Box<Self>, failure: Option<&StorageError>);
    /// False if the commit need not wait for the disk: then it survives the end of the process, but not a power cut.
    fn waits_for_disk(&self) -> bool {
        true
    }
}

/// Receives, in the writer's thread, whether the job is in the file.
pub(crate) type Then = Box<dyn FnOnce(bool) + Send>;

/// How a job is run and committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// With others, in a transaction that waits for the disk.
    Durable,
    /// With others; the commit need not wait for the disk.
    Repeatable,
    /// Alone, outside of any transaction.
    Alone,
}

/// A job whose caller waits for its value.
pub(super) struct Task<T, F> {
    pub(super) work: F,
    pub(super) how: How,
    pub(super) outcome: Option<Stored<T>>,
    pub(super) reply: oneshot::Sender<Stored<T>>,
    pub(super) then: Option<Then>,
}

impl<T: Send, F: FnMut(&Connection) -> Stored<T> + Send> Job for Task<T, F> {
    fn run(&mut self, connection: &Connection) -> bool {
        self.outcome = None;
        let outcome = (self.work)(connection);
        let succeeded = outcome.is_ok();
        self.outcome = Some(outcome);
        succeeded
    }

    fn alone(&self) -> bool {
        self.how == How::Alone
    }

    fn waits_for_disk(&self) -> bool {
        self.how != How::Repeatable
    }

    fn answer(self: Box<Self>, failure: Option<&StorageError>) {
        let outcome = match (self.outcome, failure) {
            (Some(Err(own)), _) => Err(own),
            (_, Some(failure)) => Err(failure.clone()),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(closed()),
        };
        if let Some(then) = self.then {
            // The caller is answered also after a panic.
            let _ = caught(|| then(outcome.is_ok()));
        }
        // The caller may have dropped the future, which does not undo a commit.
        let _ = self.reply.send(outcome);
    }
}

/// A job that the writer has taken from the queue, and whether it panicked when it was last run.
pub(super) struct Queued {
    pub(super) job: Box<dyn Job>,
    panicked: Option<StorageError>,
}

impl Queued {
    pub(super) fn new(job: Box<dyn Job>) -> Self {
        Self { job, panicked: None }
    }

    pub(super) fn run(&mut self, connection: &Connection) -> bool {
        let done = caught(|| self.job.run(connection));
        self.panicked = done.as_ref().err().cloned();
        done.unwrap_or(false)
    }

    /// A panic while a job is answered affects only that answer: its caller sees a closed channel.
    pub(super) fn answer(self, failure: Option<&StorageError>) {
        let _ = caught(|| self.job.answer(self.panicked.as_ref().or(failure)));
    }
}

/// The value of `work`, or an error if it panicked.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Stored<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        StorageError::new(
            StorageErrorKind::Io,
            "the ledger's writer met a bug and wrote nothing of this; please report it",
        )
    })
}
