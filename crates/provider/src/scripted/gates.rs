//! Named gates: a script waits at one until the test opens it. An open gate must never close again.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

#[derive(Default)]
pub(super) struct Gates {
    open: Mutex<HashSet<String>>,
    opened: Notify,
}

impl Gates {
    pub(super) fn open(&self, name: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        self.opened.notify_waiters();
    }

    pub(super) async fn pass(&self, name: &str) {
        loop {
            // Created before the check, so that an opening between check and wait is not missed.
            let opened = self.opened.notified();
            if self.open.lock().unwrap_or_else(PoisonError::into_inner).contains(name) {
                return;
            }
            opened.await;
        }
    }
}
