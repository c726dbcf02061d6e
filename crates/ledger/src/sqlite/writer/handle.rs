//! The handle to the one writer: jobs are submitted to its thread and answered from there.
//!
//! Group commit shares one fsync between sessions. It must never run a job itself.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use tokio::sync::{mpsc, oneshot};

use super::job::{How, Job, Task, Then};
use super::log::Log;
use super::thread::serve;
use crate::sqlite::error::{self, Stored, closed, sqlite};
use crate::sqlite::guard::{Guard, Reads};
use crate::sqlite::sql;
use crate::sqlite::synchronous::Synchronous;

/// The length of the queue; callers wait while it is full.
const QUEUE: usize = 1_024;
/// A job that waits for the queue, which is full.
type Waiting = (Box<dyn Job>, mpsc::Sender<Box<dyn Job>>);

/// Submits a job when the queue has room again; returns it where no runtime can do that. If the writer stops before, the job is
/// dropped, and with it the channel of its answer.
fn send_when_free((job, sender): Waiting) -> Option<Waiting> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            runtime.spawn(async move { drop(sender.send(job).await) });
            None
        }
        Err(_) => Some((job, sender)),
    }
}

/// The handle to the writer's thread.
pub(crate) struct Writer {
    sender: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stopping: Arc<AtomicBool>,
}

impl Writer {
    /// Starts the thread, which takes ownership of `connection`.
    pub(crate) fn start(
        mut connection: Connection,
        synchronous: Synchronous,
        (guard, reads): (&Arc<Guard>, &Arc<Reads>),
    ) -> Stored<Self> {
        let log_pages = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&log_pages);
        let page_bytes =
            sql::one(&connection, "PRAGMA page_size", (), "read the ledger's page size")?;
        let log = Log { page_bytes, reads: Arc::clone(reads) };
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
        let flag = Arc::clone(&stopping);
        let thread = std::thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn({
                let guard = Arc::clone(guard);
                move || {
                    serve(&connection, receiver, (&log_pages, &log), &flag, (synchronous, &guard));
                }
            })
            .map_err(|error| error::file("start the ledger's writer", &error))?;
        Ok(Self { sender: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)), stopping })
    }

    /// Submits work, at once unless the queue is full, and returns its outcome. Dropping the future after that does not
    /// cancel the work.
    pub(crate) fn submit<T, F>(&self, work: F) -> impl Future<Output = Stored<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Stored<T> + Send + 'static,
    {
        self.enqueue(work, How::Durable, None)
    }

    /// Like [`Writer::submit`], for work that a power cut may undo because it is then done again: its commit does not wait for the disk.
    pub(crate) fn submit_repeatable<T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Stored<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Stored<T> + Send + 'static,
    {
        self.enqueue(work, How::Repeatable, None)
    }

    /// Like [`Writer::submit`], for work that cannot run inside a transaction (`VACUUM`). Other jobs wait until it has
    /// ended.
    pub(crate) fn submit_alone<T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Stored<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Stored<T> + Send + 'static,
    {
        self.enqueue(work, How::Alone, None)
    }

    /// Like [`Writer::submit`]; `then` is called before the caller is answered.
    pub(crate) fn submit_then<T, F>(
        &self,
        work: F,
        then: Option<Then>,
    ) -> impl Future<Output = Stored<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Stored<T> + Send + 'static,
    {
        self.enqueue(work, How::Durable, then)
    }

    fn enqueue<T, F>(
        &self,
        work: F,
        how: How,
        then: Option<Then>,
    ) -> impl Future<Output = Stored<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Stored<T> + Send + 'static,
    {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (reply, answer) = oneshot::channel();
        let job: Box<dyn Job> = Box::new(Task { work, how, outcome: None, reply, then });
        // If the queue is full, a task submits the job, because nobody polls the answer of work in the background. Outside of a
        // runtime the future does.
        let left = match &sender {
            None => Err(closed()),
            Some(sender) => match sender.try_send(job) {
                Ok(()) => Ok(None),
                Err(mpsc::error::TrySendError::Full(job)) => Ok(Some(job)),
                Err(mpsc::error::TrySendError::Closed(_)) => Err(closed()),
            },
        };
        let waiting = left.map(|left| left.zip(sender).and_then(send_when_free));
        async move {
            if let Some((job, sender)) = waiting? {
                sender.send(job).await.map_err(|_| closed())?;
            }
            answer.await.map_err(|_| closed())?
        }
    }

    /// Submits a job without a waiting caller. If the queue is full or the writer has stopped, the job is answered as failed
    /// here.
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

    /// Waits for the submitted jobs, checkpoints and closes the connection. Later jobs are refused.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // Wakes the thread, even if other senders still exist. If the queue is full, the thread is awake.
            let (reply, _) = oneshot::channel();
            let _ = sender.try_send(Box::new(Task {
                work: |_: &Connection| Ok(()),
                how: How::Durable,
                outcome: None,
                reply,
                then: None,
            }));
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread catches all panics of its jobs, and does not panic otherwise.
            let _ = thread.join();
        }
    }
}
