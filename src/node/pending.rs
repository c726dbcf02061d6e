//! The requests of JavaScript that can be cancelled, by their number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// The compactions that run, by the number of their request.
pub(super) type Compactions = Arc<Mutex<HashMap<u32, CancellationToken>>>;

/// The pages that are waited for, by the number of their request; `None` once the engine closes.
pub(super) type Followers = Arc<Mutex<Option<HashMap<u32, CancellationToken>>>>;

/// Nobody waits yet.
pub(super) fn followers() -> Followers {
    Arc::new(Mutex::new(Some(HashMap::new())))
}

/// The engine closes: nobody follows anything any more.
pub(super) fn end_all(followers: &Followers) {
    let waiting = followers.lock().unwrap_or_else(PoisonError::into_inner).take();
    for cancel in waiting.unwrap_or_default().into_values() {
        cancel.cancel();
    }
}
