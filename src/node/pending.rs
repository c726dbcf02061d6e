//! The requests of JavaScript that can be cancelled, by their number. It must never answer one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Compactions and questions to MCP servers that run, by the number of their request.
#[derive(Clone, Default)]
pub(super) struct Requests(Arc<Mutex<HashMap<u32, CancellationToken>>>);

impl Requests {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request begins; what is returned ends it.
    pub(super) fn begin(&self, id: u32) -> CancellationToken {
        self.lock().entry(id).or_default().clone()
    }

    pub(super) fn end(&self, id: u32) {
        self.lock().remove(&id);
    }

    /// Cancels a request; nothing happens where it has ended.
    pub(super) fn cancel(&self, id: u32) {
        if let Some(cancel) = self.lock().get(&id) {
            cancel.cancel();
        }
    }
}

/// The requested pages, by the number of their request; `None` once the engine closes.
pub(super) type Followers = Arc<Mutex<Option<HashMap<u32, CancellationToken>>>>;

/// No page is requested yet.
pub(super) fn followers() -> Followers {
    Arc::new(Mutex::new(Some(HashMap::new())))
}

/// Cancels every page, because the engine closes.
pub(super) fn end_all(followers: &Followers) {
    let waiting = followers.lock().unwrap_or_else(PoisonError::into_inner).take();
    for cancel in waiting.unwrap_or_default().into_values() {
        cancel.cancel();
    }
}
