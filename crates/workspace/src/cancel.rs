//! The cancellation of one call: a flag that another thread sets. It must never interrupt a rename.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::ToolError;

const RUNNING: u8 = 0;
const EXPIRED: u8 = 1;
const CANCELLED: u8 = 2;

/// Whether a call is to end early.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

type Waker = Box<dyn Fn() + Send>;

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Shared").field(&self.state).finish()
    }
}

/// While it exists, a call that waits is woken by its cancellation.
#[derive(Debug)]
pub struct Woken<'c>(&'c Cancel);

impl Drop for Woken<'_> {
    fn drop(&mut self) {
        *self.0.0.waker.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Cancel {
    /// Ends the call at its next check; a file that is already replaced stays replaced.
    pub fn cancel(&self) {
        self.0.state.store(CANCELLED, Ordering::SeqCst);
        let waker = self.0.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wake) = waker.as_ref() {
            wake();
        }
    }

    /// Has `wake` called by a cancellation; one before is found by [`Cancel::is_cancelled`].
    pub fn on_cancel(&self, wake: impl Fn() + Send + 'static) -> Woken<'_> {
        *self.0.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(wake));
        Woken(self)
    }

    /// Whether the call was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.check().is_err()
    }

    /// The call's time is up: a search ends with what it found, other calls go on.
    pub fn expire(&self) {
        // A call that is cancelled stays cancelled.
        let _was =
            self.0.state.compare_exchange(RUNNING, EXPIRED, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.0.state.load(Ordering::Relaxed) == EXPIRED
    }

    /// An error once the call is cancelled.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.0.state.load(Ordering::SeqCst) == CANCELLED {
            return Err(ToolError::new("Operation aborted"));
        }
        Ok(())
    }
}
