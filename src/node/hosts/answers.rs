//! Requests to JavaScript that are not answered yet, by number.
//!
//! Numbers are never reused: a late answer must never be delivered to another request.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The answer of `onRequest`: no other body, a new body, or the message of an error.
pub(in crate::node) type RequestAnswers = Answers<Result<Option<String>, String>>;

/// The open requests of one kind.
pub(in crate::node) struct Answers<T> {
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

    /// A new request: its number, and the receiver of its answer.
    pub(in crate::node) fn expect(&self) -> (u32, oneshot::Receiver<T>) {
        let (send, answer) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.last = waiting.last.wrapping_add(1);
        let number = waiting.last;
        waiting.senders.insert(number, send);
        (number, answer)
    }

    /// Takes the sender of the answer to request `number`; `None` for a late answer (docs/rules/abort-usage.md#abort), or a second one.
    pub(in crate::node) fn take(&self, number: u32) -> Option<oneshot::Sender<T>> {
        self.lock().senders.remove(&number)
    }
}
