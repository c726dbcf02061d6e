//! The one writer: a thread that takes all waiting jobs into one transaction and answers them after its commit.
//!
//! Group commit shares one fsync between sessions. A job's failure undoes that job alone; it must never be possible
//! for a job to be answered before its transaction is on disk.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use tokio::sync::{mpsc, oneshot};

use crate::sqlite::connection::BUSY_TIMEOUT;
use crate::sqlite::error::{self, Stored, closed, sqlite};
use crate::sqlite::guard::{Guard, Reads};
use crate::sqlite::synchronous::Synchronous;
use model::{StorageError, StorageErrorKind};

/// Jobs that may wait; a caller beyond them waits to hand its job over.
const QUEUE: usize = 1_024;
/// Jobs of one transaction: more would hold the write lock too long for other processes.
const GROUP: usize = 256;
/// Pages in the log from which the writer checkpoints.
const CHECKPOINT_PAGES: i32 = 1_000;

/// How long a transaction that nobody's turn waits for waits for another process's lock.
const BRIEF: Duration = Duration::from_millis(250);

/// Work that was handed to the writer.
pub(crate) trait Job: Send {
    /// Does the work inside the transaction; may be called again after a rollback, or after it panicked. False when it
    /// failed by itself.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Whether it needs the connection to itself, outside of any transaction.
    fn alone(&self) -> bool {
        false
    }
    /// Tells the caller, with the transaction's failure if it had one.
    fn answer(self: Box<Self>, failure: Option<&StorageError>);
    /// False where it is enough that the system has it: it survives the process then, and not a power cut.
    fn waits_for_disk(&self) -> bool {
        true
    }
}

/// Told in the writer's thread whether a job is in the file.
pub(crate) type Then = Box<dyn FnOnce(bool) + Send>;

struct Task<T, F> {
    work: F,
    alone: bool,
    outcome: Option<Stored<T>>,
    reply: oneshot::Sender<Stored<T>>,
    then: Option<Then>,
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
        self.alone
    }

    fn answer(self: Box<Self>, failure: Option<&StorageError>) {
        let outcome = match (self.outcome, failure) {
            (Some(Err(own)), _) => Err(own),
            (_, Some(failure)) => Err(failure.clone()),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(closed()),
        };
        if let Some(then) = self.then {
            // Whoever waits is answered all the same.
            let _ = caught(|| then(outcome.is_ok()));
        }
        // Nobody may be listening: a dropped future does not undo a commit.
        let _ = self.reply.send(outcome);
    }
}

/// A job in the writer's hands, and whether it panicked when it was last run.
struct Queued {
    job: Box<dyn Job>,
    panicked: Option<StorageError>,
}

impl Queued {
    fn new(job: Box<dyn Job>) -> Self {
        Self { job, panicked: None }
    }

    fn run(&mut self, connection: &Connection) -> bool {
        let done = caught(|| self.job.run(connection));
        self.panicked = done.as_ref().err().cloned();
        done.unwrap_or(false)
    }

    /// A panic while a job is answered ends that answer and nothing else: what waits for it sees its channel closed.
    fn answer(self, failure: Option<&StorageError>) {
        let _ = caught(|| self.job.answer(self.panicked.as_ref().or(failure)));
    }
}

/// What `work` gives, or the error of whoever waits for work that panicked.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Stored<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        StorageError::new(
            StorageErrorKind::Io,
            "the ledger's writer met a bug and wrote nothing of this; please report it",
        )
    })
}

/// The handle to the writer's thread.
pub(crate) struct Writer {
    sender: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stopping: Arc<AtomicBool>,
}

impl Writer {
    /// Starts the thread, which owns `connection` from now on.
    pub(crate) fn start(
        mut connection: Connection,
        synchronous: Synchronous,
        (guard, reads): (&Arc<Guard>, &Arc<Reads>),
    ) -> Stored<Self> {
        let log_pages = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&log_pages);
        let page_bytes: i64 = connection
            .query_row("PRAGMA page_size", (), |row| row.get(0))
            .map_err(|error| sqlite("read the ledger's page size", &error))?;
        let log = Log { page_bytes: page_bytes.unsigned_abs(), reads: Arc::clone(reads) };
        let growing = log.clone();
        connection
            .wal_hook(Some(move |_: &mut Wal, pages| {
                seen.store(pages, Ordering::Relaxed);
                growing.committed(pages);
                Ok(())
            }))
            .map_err(|error| sqlite("watch the ledger's log", &error))?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let stopping = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stopping);
        let thread = std::thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn({
                let guard = Arc::clone(guard);
                move || {
                    serve(&connection, receiver, (&log_pages, &log), &told, (synchronous, guard))
                }
            })
            .map_err(|error| error::file("start the ledger's writer", &error))?;
        Ok(Self { sender: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)), stopping })
    }

    /// Hands work over at once where there is room, and tells what came of it. Dropping the future then changes
    /// nothing.
    pub(crate) fn submit<T, F>(&self, work: F) -> impl Future<Output = Stored<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Stored<T> + Send + 'static,
    {
        self.hand_over(work, false, None)
    }

    /// As [`Writer::submit`], for work that no transaction may hold (`VACUUM`). Others wait until it has ended.
    pub(crate) fn submit_alone<T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Stored<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Stored<T> + Send + 'static,
    {
        self.hand_over(work, true, None)
    }

    /// As [`Writer::submit`]; `then` is told before whoever waits is.
    pub(crate) fn submit_then<T, F>(
        &self,
        work: F,
        then: Option<Then>,
    ) -> impl Future<Output = Stored<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Stored<T> + Send + 'static,
    {
        self.hand_over(work, false, then)
    }

    fn hand_over<T, F>(
        &self,
        work: F,
        alone: bool,
        then: Option<Then>,
    ) -> impl Future<Output = Stored<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Stored<T> + Send + 'static,
    {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (reply, answer) = oneshot::channel();
        let job: Box<dyn Job> = Box::new(Task { work, alone, outcome: None, reply, then });
        // Kept only by a future whose job found no room.
        let left = match &sender {
            None => Err(closed()),
            Some(sender) => match sender.try_send(job) {
                Ok(()) => Ok(None),
                Err(mpsc::error::TrySendError::Full(job)) => Ok(Some(job)),
                Err(mpsc::error::TrySendError::Closed(_)) => Err(closed()),
            },
        };
        let waiting = left.map(|left| left.zip(sender));
        async move {
            if let Some((job, sender)) = waiting? {
                sender.send(job).await.map_err(|_| closed())?;
            }
            answer.await.map_err(|_| closed())?
        }
    }

    /// Hands a job over that nobody waits for. One that finds no room, or no writer, is answered as failed here.
    pub(crate) fn post(&self, job: Box<dyn Job>) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let left = match sender {
            None => Some(job),
            Some(sender) => sender.try_send(job).err().map(|error| match error {
                mpsc::error::TrySendError::Full(job) | mpsc::error::TrySendError::Closed(job) => {
                    job
                }
            }),
        };
        if let Some(job) = left {
            job.answer(Some(&closed()));
        }
    }

    /// Waits for the jobs handed over, checkpoints and closes the connection. Later jobs are refused.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // Wakes the thread, whoever else still has a sender. Where there is no room it is awake.
            let (reply, _) = oneshot::channel();
            let _ = sender.try_send(Box::new(Task {
                work: |_: &Connection| Ok(()),
                alone: false,
                outcome: None,
                reply,
                then: None,
            }));
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread catches the panics of its jobs, of whatever kind, and has none of its own.
            let _ = thread.join();
        }
    }
}

fn serve(
    connection: &Connection,
    mut receiver: mpsc::Receiver<Box<dyn Job>>,
    (log_pages, log): (&AtomicI32, &Log),
    stopping: &AtomicBool,
    (synchronous, guard): (Synchronous, Arc<Guard>),
) {
    let mut sync_mode = SyncMode { synchronous, full: true, guard, unsure: false };
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
            commit(connection, group, &mut sync_mode);
        }
        if let Some(mut job) = alone.map(Queued::new) {
            match sync_mode.guard.check() {
                Ok(()) => {
                    job.run(connection);
                    roll_back(connection);
                    job.answer(sync_mode.guard.check().err().as_ref());
                }
                Err(error) => job.answer(Some(&error)),
            }
        }
        if stopping.load(Ordering::Acquire) {
            // What is queued is still served; nothing more gets in.
            receiver.close();
        }
        if log_pages.load(Ordering::Relaxed) >= CHECKPOINT_PAGES && sync_mode.guard.is_sound() {
            sync_mode.unsure |= !log.fold(connection);
        }
    }
    if sync_mode.guard.may_fold() {
        let _ = connection
            .wal_checkpoint_v2(Some(rusqlite::MAIN_DB), rusqlite::wal::CheckpointMode::TRUNCATE);
    } else {
        // Nor by SQLite itself when the connection closes.
        let _ = connection
            .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }
}

/// The log behind the commits: folded into the file, and bounded where a read keeps it from being folded.
#[derive(Clone)]
struct Log {
    page_bytes: u64,
    reads: Arc<Reads>,
}

impl Log {
    fn committed(&self, pages: i32) {
        self.reads.committed(u64::try_from(pages).unwrap_or_default(), self.page_bytes);
    }

    /// A checkpoint that cannot finish now (a reader, a full disk) is tried after the next commit. False where the disk failed.
    fn fold(&self, connection: &Connection) -> bool {
        let done = connection
            .wal_checkpoint_v2(Some(rusqlite::MAIN_DB), rusqlite::wal::CheckpointMode::PASSIVE);
        let (pages, folded) = match done {
            Ok(done) => done,
            Err(error) => {
                return error.sqlite_error_code() != Some(rusqlite::ErrorCode::SystemIoFailure);
            }
        };
        let bytes = u64::try_from(pages).unwrap_or_default().saturating_mul(self.page_bytes);
        self.reads.bound_log(bytes, folded >= pages);
        true
    }
}

/// Commits the jobs together. Savepoints copy every page they touch, so they are used only when a job has failed; and
/// where the transaction itself fails, each job is tried alone, so that one that does not fit the disk takes no other
/// with it.
fn commit(connection: &Connection, mut jobs: Vec<Queued>, sync_mode: &mut SyncMode) {
    let single = jobs.len() == 1;
    let waits = jobs.iter().any(|queued| queued.job.waits_for_disk());
    let ready = sync_mode.guard.check().and_then(|()| sync_mode.renew_log(connection));
    if let Err(error) = ready.and_then(|()| sync_mode.take(connection, waits)) {
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
        // A job that failed by itself holds its own error.
        End::JobFailed => jobs.into_iter().for_each(|job| job.answer(None)),
        // Looked at once more: what went into a file that is gone from its path is not acknowledged.
        End::Committed => {
            let gone = sync_mode.guard.check().err();
            jobs.into_iter().for_each(|job| job.answer(gone.as_ref()));
        }
        End::NotBegun(error) => jobs.into_iter().for_each(|job| job.answer(Some(&error))),
        End::Failed(error) if single => {
            jobs.into_iter().for_each(|job| job.answer(Some(&error)));
        }
        End::Failed(_) => {
            jobs.into_iter().for_each(|job| commit(connection, vec![job], sync_mode));
        }
    }
}

/// How far the next transaction waits: for the disk, and for other processes.
struct SyncMode {
    synchronous: Synchronous,
    full: bool,
    guard: Arc<Guard>,
    /// A write or a sync of the log has failed: what stands in it may never reach the disk, though it can be read.
    unsure: bool,
}

impl SyncMode {
    /// Begins the log anew after a failure: no commit may stand behind one that the disk may not have. The system reports a
    /// failed sync once, and takes the pages for written from then on.
    fn renew_log(&mut self, connection: &Connection) -> Stored<()> {
        if self.unsure {
            connection
                .wal_checkpoint_v2(Some(rusqlite::MAIN_DB), rusqlite::wal::CheckpointMode::TRUNCATE)
                .map_err(|error| sqlite("begin the ledger's log anew after an error", &error))?;
            self.unsure = false;
        }
        Ok(())
    }

    fn take(&mut self, connection: &Connection, full: bool) -> Stored<()> {
        if full == self.full {
            return Ok(());
        }
        let failed = |error| sqlite("configure the ledger's connection", &error);
        connection.busy_timeout(if full { BUSY_TIMEOUT } else { BRIEF }).map_err(failed)?;
        if self.synchronous == Synchronous::Full {
            let how = if full { Synchronous::Full } else { Synchronous::Normal };
            connection.pragma_update(None, "synchronous", how.pragma()).map_err(failed)?;
        }
        self.full = full;
        Ok(())
    }
}

/// Whether a job that fails undoes the transaction or only itself.
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
    /// The lock was not to be had.
    NotBegun(StorageError),
    /// The transaction could not be committed, or SQLite gave it up: a full disk, an I/O error.
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
        // If this fails too, SQLite has rolled back by itself, or the next BEGIN says what is wrong.
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

fn execute(connection: &Connection, sql: &str) -> Stored<usize> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.execute(()))
        .map_err(|error| sqlite("commit to the ledger", &error))
}
