//! The writer's thread: it takes all waiting jobs into one transaction, answers them after its commit, and copies the log into
//! the file when it has grown.
//!
//! A job's failure undoes that job alone. It must never answer a job before its transaction is in the file.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::job::{Job, Queued};
use super::log::Log;
use super::sync_mode::SyncMode;
use crate::sqlite::error::Stored;
use crate::sqlite::guard::Guard;
use crate::sqlite::sql;
use crate::sqlite::synchronous::Synchronous;
use model::{StorageError, StorageErrorKind};

/// Jobs of one transaction: more would hold the write lock too long for other processes.
const GROUP: usize = 256;
/// The number of pages in the log at which the writer checkpoints.
const CHECKPOINT_PAGES: i32 = 1_000;

/// Takes jobs from the queue until the writer is stopped, and closes the log.
pub(super) fn serve(
    connection: &Connection,
    mut receiver: mpsc::Receiver<Box<dyn Job>>,
    (log_pages, log): (&AtomicI32, &Log),
    stopping: &AtomicBool,
    (synchronous, guard): (Synchronous, &Guard),
) {
    let mut sync_mode = SyncMode::new(synchronous);
    let mut group = Vec::new();
    while let Some(first) = receiver.blocking_recv() {
        let mut alone = None;
        let mut next = Some(first);
        while let Some(job) = next {
            if job.alone() {
                alone = Some(job);
                break;
            }
            group.push(job);
            next = if group.len() < GROUP { receiver.try_recv().ok() } else { None };
        }
        if !group.is_empty() {
            let group = std::mem::take(&mut group).into_iter().map(Queued::new).collect();
            commit(connection, group, guard, &mut sync_mode);
        }
        if let Some(mut job) = alone.map(Queued::new) {
            match guard.check() {
                Ok(()) => {
                    job.run(connection);
                    roll_back(connection);
                    job.answer(guard.check().err().as_ref());
                }
                Err(error) => job.answer(Some(&error)),
            }
        }
        if stopping.load(Ordering::Acquire) {
            // The queued jobs are still served; later ones are refused.
            receiver.close();
        }
        if log_pages.load(Ordering::Relaxed) >= CHECKPOINT_PAGES && guard.is_sound() {
            sync_mode.unsure |= !log.checkpoint(connection);
        }
    }
    if guard.may_checkpoint() {
        // Other processes cannot commit while it waits for their readers: the next one that closes does it.
        let _ = connection.busy_timeout(Duration::ZERO);
        let _ = connection
            .wal_checkpoint_v2(Some(rusqlite::MAIN_DB), rusqlite::wal::CheckpointMode::TRUNCATE);
    } else {
        // SQLite must not checkpoint either when the connection closes.
        let _ = connection
            .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }
}

/// Commits the jobs together. Savepoints copy every page they touch, so they are used only after a job has failed. If the
/// transaction itself fails, each job is retried alone, so that a job that does not fit on the disk fails alone.
fn commit(connection: &Connection, mut jobs: Vec<Queued>, guard: &Guard, sync_mode: &mut SyncMode) {
    let single = jobs.len() == 1;
    let waits = jobs.iter().any(|queued| queued.job.waits_for_disk());
    let ready = guard.check().and_then(|()| sync_mode.renew_log(connection));
    if let Err(error) = ready.and_then(|()| sync_mode.set(connection, waits)) {
        jobs.into_iter().for_each(|job| job.answer(Some(&error)));
        return;
    }
    let mut end = transact(connection, &mut jobs, Isolation::Together);
    if matches!(end, End::JobFailed) && !single {
        end = transact(connection, &mut jobs, Isolation::Apart);
    }
    if let End::Failed(error) = &end {
        sync_mode.unsure |= error.kind == StorageErrorKind::Io;
    }
    match end {
        // A job that failed itself has its own error.
        End::JobFailed => jobs.into_iter().for_each(|job| job.answer(None)),
        // The file is checked again: a commit into a file that is no longer at its path is not acknowledged.
        End::Committed => {
            let fault = guard.check().err();
            jobs.into_iter().for_each(|job| job.answer(fault.as_ref()));
        }
        End::NotBegun(error) => jobs.into_iter().for_each(|job| job.answer(Some(&error))),
        End::Failed(error) if single => {
            jobs.into_iter().for_each(|job| job.answer(Some(&error)));
        }
        End::Failed(_) => {
            jobs.into_iter().for_each(|job| commit(connection, vec![job], guard, sync_mode));
        }
    }
}

/// Whether a failed job undoes the transaction or only its own changes.
#[derive(Clone, Copy)]
enum Isolation {
    Together,
    Apart,
}

/// How a transaction ended.
enum End {
    Committed,
    /// A job failed and, without savepoints, everything was rolled back.
    JobFailed,
    /// The transaction could not begin: another process has the lock.
    NotBegun(StorageError),
    /// The transaction could not be committed, or SQLite rolled it back: a full disk, an I/O error.
    Failed(StorageError),
}

fn transact(connection: &Connection, jobs: &mut [Queued], isolation: Isolation) -> End {
    if let Err(error) = execute(connection, "BEGIN IMMEDIATE") {
        return End::NotBegun(error);
    }
    let end = run_jobs(connection, jobs, isolation).unwrap_or_else(End::Failed);
    roll_back(connection);
    end
}

/// Ends a transaction that is still open.
fn roll_back(connection: &Connection) {
    if !connection.is_autocommit() {
        // If this fails too, SQLite has already rolled back, or the next BEGIN returns the error.
        let _ = execute(connection, "ROLLBACK");
    }
}

fn run_jobs(connection: &Connection, jobs: &mut [Queued], isolation: Isolation) -> Stored<End> {
    for job in jobs {
        match isolation {
            Isolation::Together => {
                if !job.run(connection) {
                    return Ok(End::JobFailed);
                }
            }
            Isolation::Apart => {
                execute(connection, "SAVEPOINT job")?;
                if !job.run(connection) {
                    if connection.is_autocommit() {
                        return Err(StorageError::new(
                            StorageErrorKind::Io,
                            "the ledger's transaction was rolled back; check the disk and try again",
                        ));
                    }
                    execute(connection, "ROLLBACK TO job")?;
                }
                execute(connection, "RELEASE job")?;
            }
        }
    }
    execute(connection, "COMMIT").map(|_| End::Committed)
}

fn execute(connection: &Connection, statement: &str) -> Stored<usize> {
    sql::exec(connection, statement, (), "commit to the ledger")
}
