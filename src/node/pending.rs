//! The requests of JavaScript that can be cancelled, by their number. It must never answer one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// The running compactions, by the number of their request.
pub(super) type Compactions = Arc<Mutex<HashMap<u32, CancellationToken>>>;

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
