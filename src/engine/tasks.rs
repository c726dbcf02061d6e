//! Every task of the engine: spawned here, counted here, awaited at close.
//!
//! It owns the runtime. No other file may spawn a task, and it must never drop a task that still runs.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::task::TaskTracker;

static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);

/// The maximum number of threads: I/O-bound work needs few, and each costs memory. Never more than the process may use: on
/// one core a second thread only adds context switches (measured: a third more CPU per token).
const MAX_WORKERS: usize = 2;

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
        let runtime = match shared.take() {
            Some(runtime) => runtime,
            None => Builder::new_multi_thread()
                .worker_threads(
                    std::thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS),
                )
                .thread_name("agent-engine")
                .enable_all()
                .build()?,
        };
        let tasks = Self::on(runtime.handle().clone());
        *shared = Some(runtime);
        Ok(tasks)
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
