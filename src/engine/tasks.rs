//! Every task of the engine: spawned here, counted here, awaited at close.
//!
//! It owns the runtime. No other file may spawn a task, and it must never drop a task that still runs.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle};
use tokio_util::task::TaskTracker;

static RUNTIME: Mutex<Option<Handle>> = Mutex::new(None);

/// The tasks of one engine.
#[derive(Debug, Clone)]
pub(crate) struct Tasks {
    handle: Handle,
    tracker: TaskTracker,
}

impl Tasks {
    /// Tasks on the process's shared runtime, which is created at first use and never dropped: a worker thread of Node may end
    /// while others continue.
    ///
    /// # Errors
    /// The system has no free threads or descriptors; the next call tries again.
    pub(crate) fn shared() -> std::io::Result<Self> {
        let mut shared = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = match shared.take() {
            Some(handle) => handle,
            None => start_thread()?,
        };
        *shared = Some(handle.clone());
        Ok(Self::on(handle))
    }

    /// Tasks on a given runtime.
    #[must_use]
    pub(crate) fn on(handle: Handle) -> Self {
        Self { handle, tracker: TaskTracker::new() }
    }

    /// Another set of tasks on the same runtime, awaited separately.
    #[must_use]
    pub(crate) fn sibling(&self) -> Self {
        Self::on(self.handle.clone())
    }

    /// Runs a task. Boxed, so that the runtime's part of it is compiled once and not for every kind of task.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(task);
        self.tracker.spawn_on(task, &self.handle);
    }

    /// Waits until every task has ended. New ones may still be spawned, so the caller refuses new runs first.
    pub(crate) async fn finished(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// One thread for all tasks: they wait for sockets, and a second thread costs more in wake-ups than it gains. Work that would
/// delay the others (a large read, a long check) runs on a separate blocking thread.
fn start_thread() -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let serve = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("agent-engine".to_owned()).spawn(serve)?;
    Ok(handle)
}
