//! A small pool of read-only connections, used from blocking threads.
//!
//! A read must never hold its transaction across an await: a pinned reader makes the log grow (docs/rules/faults.md#sqlite).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::sqlite::connection::BUSY_TIMEOUT;
use crate::sqlite::error::{Stored, closed, sqlite};
use crate::sqlite::guard::{Guard, Read, Reads};
use model::{StorageError, StorageErrorKind};

/// Opens one more connection.
type Opener = Box<dyn Fn() -> Stored<Connection> + Send + Sync>;

/// A pool of connections, each opened when it is first needed.
pub(crate) struct Readers {
    open: Opener,
    most: usize,
    guard: Arc<Guard>,
    reads: Arc<Reads>,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Connection>,
    lent: usize,
    closed: bool,
}

impl Readers {
    /// A pool of at most `most` connections.
    pub(crate) fn new(
        most: usize,
        (guard, reads): (&Arc<Guard>, &Arc<Reads>),
        open: impl Fn() -> Stored<Connection> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            open: Box::new(open),
            most,
            guard: Arc::clone(guard),
            reads: Arc::clone(reads),
            state: Mutex::default(),
            returned: Condvar::new(),
        })
    }

    /// Runs `read` on a blocking thread.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&mut Connection) -> Stored<T> + Send + 'static,
    ) -> Stored<T> {
        let pool = Arc::clone(self);
        blocking(move || pool.with(read)).await
    }

    /// Like [`Readers::run`], for a read of a few rows: it runs on the caller's thread if a connection is idle and the file
    /// is not locked, because a switch to another thread would take longer than the read.
    pub(crate) async fn run_small<T: Send + 'static>(
        self: &Arc<Self>,
        mut read: impl FnMut(&mut Connection) -> Stored<T> + Send + 'static,
    ) -> Stored<T> {
        if let Some(done) = self.here(&mut read) {
            return done;
        }
        self.run(read).await
    }

    /// Runs `read` on this thread; `None` if it would have to wait.
    fn here<T>(&self, read: &mut impl FnMut(&mut Connection) -> Stored<T>) -> Option<Stored<T>> {
        let mut lease = self.idle()?;
        let connection = lease.connection.as_mut()?;
        connection.busy_timeout(Duration::ZERO).ok()?;
        let done = catch_unwind(AssertUnwindSafe(|| {
            self.guard.check()?;
            let under_way = self.reads.begin(connection);
            under_way.outcome(read(connection))
        }));
        let restored = connection.busy_timeout(BUSY_TIMEOUT);
        if done.is_err() || restored.is_err() {
            // The connection's state is unknown after a panic.
            lease.connection = None;
        }
        match done {
            Ok(Err(error)) if error.kind == StorageErrorKind::Locked => None,
            Ok(done) => Some(done),
            Err(_) => Some(Err(cut_off())),
        }
    }

    /// An idle connection, if there is one.
    fn idle(&self) -> Option<Lease<'_>> {
        let mut state = self.lock();
        if state.closed || state.lent >= self.most {
            return None;
        }
        let connection = state.idle.pop()?;
        state.lent += 1;
        Some(Lease { pool: self, connection: Some(connection) })
    }

    /// Runs `read` here, waiting for a connection.
    pub(crate) fn with<T>(&self, read: impl FnOnce(&mut Connection) -> Stored<T>) -> Stored<T> {
        let mut lease = self.lend()?;
        match lease.connection.as_mut() {
            Some(connection) => {
                let under_way = self.reads.begin(connection);
                under_way.outcome(read(connection))
            }
            None => Err(closed()),
        }
    }

    /// Begins a read on a connection outside the pool.
    pub(crate) fn begin(&self, connection: &mut Connection) -> Read {
        self.reads.begin(connection)
    }

    /// Runs `work`, which opens its own connection, on a blocking thread; closing waits for it as for a read.
    pub(crate) async fn with_own_connection<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> Stored<T> + Send + 'static,
    ) -> Stored<T> {
        let pool = Arc::clone(self);
        blocking(move || {
            let _slot = pool.slot()?;
            work()
        })
        .await
    }

    /// Closes the idle connections and waits for those that are lent.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.idle.clear();
        while state.lent > 0 {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot of the pool, without a connection yet.
    fn slot(&self) -> Stored<Lease<'_>> {
        let mut state = self.lock();
        while !state.closed && state.lent >= self.most {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return Err(closed());
        }
        state.lent += 1;
        drop(state);
        let lease = Lease { pool: self, connection: None };
        self.guard.check()?;
        Ok(lease)
    }

    fn lend(&self) -> Stored<Lease<'_>> {
        let mut lease = self.slot()?;
        let idle = self.lock().idle.pop();
        lease.connection = Some(match idle {
            Some(connection) => connection,
            None => (self.open)()?,
        });
        Ok(lease)
    }
}

/// Runs work on a blocking thread. The work is boxed, so that the runtime's code is compiled once and not for every read.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Stored<T> + Send + 'static,
) -> Stored<T> {
    let (reply, answer) = oneshot::channel();
    let work: Box<dyn FnOnce() + Send> = Box::new(move || {
        // The caller may have dropped its future.
        let _ = reply.send(work());
    });
    drop(tokio::task::spawn_blocking(work));
    // Without an answer, the work panicked.
    answer.await.unwrap_or_else(|_| Err(cut_off()))
}

/// Returns the connection to the pool, also after a panic of the read.
struct Lease<'a> {
    pool: &'a Readers,
    connection: Option<Connection>,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.lent = state.lent.saturating_sub(1);
        if let Some(connection) = self.connection.take()
            && !state.closed
            && connection.is_autocommit()
        {
            state.idle.push(connection);
        }
        drop(state);
        self.pool.returned.notify_all();
    }
}

fn cut_off() -> StorageError {
    StorageError::new(
        StorageErrorKind::Io,
        "the read was cut off by the end of its runtime, or by a bug; try again",
    )
}

/// Runs several statements on one snapshot.
pub(crate) fn snapshot<T>(
    connection: &mut Connection,
    read: impl FnOnce(&Connection) -> Stored<T>,
) -> Stored<T> {
    let transaction =
        connection.transaction().map_err(|error| sqlite("read the ledger", &error))?;
    let value = read(&transaction)?;
    transaction.finish().map_err(|error| sqlite("read the ledger", &error))?;
    Ok(value)
}
