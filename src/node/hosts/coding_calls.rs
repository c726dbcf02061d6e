//! Calls of coding tools on blocking threads, a few at a time. It must never hold up the thread of the runtime.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use base::error::{EngineError, ErrorCode};
use model::repair_surrogates;
use workspace::{Cancel, ToolError, Workspace};

/// Calls of file tools that run at the same time in this process; the others wait.
static RUNNING: Semaphore = Semaphore::const_new(8);
/// Commands that run at the same time: they may take long, and must not hold up the file tools.
static SHELLS: Semaphore = Semaphore::const_new(16);
/// The longest time of a search; then its result is what it found.
const SEARCH_TIME: Duration = Duration::from_secs(30);

/// What a call returns: a value, what the model is to read instead, or a defect of this program.
pub(in crate::node) type Done<T> =
    std::result::Result<std::result::Result<T, ToolError>, EngineError>;

/// Runs a call on a blocking thread, when it is its turn.
pub(in crate::node) async fn blocking<T: Send + 'static>(
    workspace: Arc<Workspace>,
    shells: bool,
    cancel: Cancel,
    work: impl FnOnce(&Workspace, &Cancel) -> std::result::Result<T, ToolError> + Send + 'static,
) -> Done<T> {
    let _permit = turn(if shells { &SHELLS } else { &RUNNING }, &cancel).await;
    let time_up = cancel.clone();
    let mut work = tokio::task::spawn_blocking(move || work(&workspace, &cancel));
    let done = tokio::select! {
        done = &mut work => done,
        () = tokio::time::sleep(SEARCH_TIME) => {
            time_up.expire();
            work.await
        }
    };
    done.map_err(|_panic| {
        let message = "a coding tool failed inside; its message is on standard error";
        EngineError::new(ErrorCode::Internal, message)
    })
}

/// Waits for the turn of a call. One that is cancelled has none: it ends as soon as it begins.
async fn turn<'s>(permits: &'s Semaphore, cancel: &Cancel) -> Option<SemaphorePermit<'s>> {
    let cancelled = Arc::new(Notify::new());
    let wake = Arc::clone(&cancelled);
    let _woken = cancel.on_cancel(move || wake.notify_one());
    if cancel.is_cancelled() {
        return None;
    }
    tokio::select! {
        // They are never closed.
        permit = permits.acquire() => permit.ok(),
        () = cancelled.notified() => None,
    }
}

/// As in a context, a lone surrogate becomes U+FFFD.
pub(in crate::node) fn repaired(json: &str) -> String {
    String::from_utf8_lossy(&repair_surrogates(json.as_bytes())).into_owned()
}
