//! The cancellation of one call: a flag that another thread sets. It must never interrupt a rename.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::ToolError;

const RUNNING: u8 = 0;
const EXPIRED: u8 = 1;
const CANCELLED: u8 = 2;

/// Whether a call is to end early.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicU8>);

impl Cancel {
    /// Ends the call at its next check; a file that is already replaced stays replaced.
    pub fn cancel(&self) {
        self.0.store(CANCELLED, Ordering::Relaxed);
    }

    /// The call's time is up: a search ends with what it found, other calls go on.
    pub fn expire(&self) {
        // A call that is cancelled stays cancelled.
        let _was = self.0.compare_exchange(RUNNING, EXPIRED, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.0.load(Ordering::Relaxed) == EXPIRED
    }

    /// An error once the call is cancelled.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.0.load(Ordering::Relaxed) == CANCELLED {
            return Err(ToolError::new("Operation aborted"));
        }
        Ok(())
    }
}
