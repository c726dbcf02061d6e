//! What a run has asked JavaScript and has no answer to yet, by number.
//!
//! Every question has a number of its own, so that a late answer never stands in for another one's.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The open questions of one run.
pub(super) struct Answers<T> {
    waiting: Mutex<Waiting<T>>,
}

struct Waiting<T> {
    last: u32,
    senders: HashMap<u32, oneshot::Sender<T>>,
}

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Self { waiting: Mutex::new(Waiting { last: 0, senders: HashMap::new() }) }
    }
}

impl<T> Answers<T> {
    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new question: its number, and where its answer comes.
    pub(super) fn expect(&self) -> (u32, oneshot::Receiver<T>) {
        let (send, answer) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.last = waiting.last.wrapping_add(1);
        let number = waiting.last;
        waiting.senders.insert(number, send);
        (number, answer)
    }

    /// Who waits for the answer to question `number`; nobody where it is late (docs/rules/abort-usage.md#abort), or after this.
    pub(super) fn take(&self, number: u32) -> Option<oneshot::Sender<T>> {
        self.lock().senders.remove(&number)
    }
}
