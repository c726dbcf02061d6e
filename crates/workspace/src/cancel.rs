//! The cancellation of one call: a flag that another thread sets. It must never interrupt a rename.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::ToolError;

/// Whether a call is to end early.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends the call at its next check; a file that is already replaced stays replaced.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// An error once the call is cancelled.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.0.load(Ordering::Relaxed) {
            return Err(ToolError::new("Operation aborted"));
        }
        Ok(())
    }
}
