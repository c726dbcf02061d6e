//! The requests of a connection that are not answered yet. A number is never used twice, so that a late or a second answer is dropped.
//!
//! It must never leave a request waiting on a connection that has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::frame::RemoteError;

/// Receives the progress of a call: the parameters of the notification.
pub type OnProgress = Arc<dyn Fn(&RawValue) + Send + Sync>;

/// What comes of a request: a result, an error of the server, or why there is no answer.
pub(crate) type Answer = Result<Result<Box<RawValue>, RemoteError>, Arc<str>>;

/// Progress that is delivered per call; the rest is dropped.
const MAX_PROGRESS: u32 = 1_000;

struct Open {
    answer: oneshot::Sender<Answer>,
    on_progress: Option<OnProgress>,
    /// Progress that may still be delivered.
    left: u32,
}

#[derive(Default)]
struct Inner {
    last: u64,
    open: HashMap<u64, Open>,
    ended: Option<Arc<str>>,
}

/// The open requests.
#[derive(Default)]
pub(crate) struct Pending {
    inner: Mutex<Inner>,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new request: its number, and the receiver of its answer.
    ///
    /// # Errors
    /// Why the connection has ended.
    pub(crate) fn open(
        &self,
        on_progress: Option<OnProgress>,
    ) -> Result<(u64, oneshot::Receiver<Answer>), Arc<str>> {
        let mut inner = self.lock();
        if let Some(why) = &inner.ended {
            return Err(Arc::clone(why));
        }
        let (answer, receiver) = oneshot::channel();
        inner.last += 1;
        let id = inner.last;
        inner.open.insert(id, Open { answer, on_progress, left: MAX_PROGRESS });
        Ok((id, receiver))
    }

    /// Answers a request; an answer to none is dropped.
    pub(crate) fn answer(&self, id: u64, outcome: Result<&RawValue, RemoteError>) {
        let open = self.lock().open.remove(&id);
        if let Some(open) = open {
            // Its caller may have gone.
            let _ = open.answer.send(Ok(outcome.map(ToOwned::to_owned)));
        }
    }

    /// Delivers the progress of a request that is open.
    pub(crate) fn progress(&self, id: u64, params: &RawValue) {
        let deliver = {
            let mut inner = self.lock();
            let Some(open) = inner.open.get_mut(&id) else { return };
            let Some(left) = open.left.checked_sub(1) else { return };
            open.left = left;
            open.on_progress.clone()
        };
        if let Some(deliver) = deliver {
            deliver(params);
        }
    }

    /// Forgets a request; false if it was answered.
    pub(crate) fn forget(&self, id: u64) -> bool {
        self.lock().open.remove(&id).is_some()
    }

    /// Ends the connection: every open request, and every later one, has this reason. The first one stays.
    pub(crate) fn end(&self, why: &str) {
        let open = {
            let mut inner = self.lock();
            if inner.ended.is_none() {
                inner.ended = Some(why.into());
            }
            std::mem::take(&mut inner.open)
        };
        let why: Arc<str> = why.into();
        for open in open.into_values() {
            // As above.
            let _ = open.answer.send(Err(Arc::clone(&why)));
        }
    }

    /// Why the connection has ended; `None` while it lives.
    pub(crate) fn ended(&self) -> Option<Arc<str>> {
        self.lock().ended.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::value::RawValue;

    use super::{MAX_PROGRESS, Pending};

    #[test]
    fn an_answer_counts_once_and_progress_is_bounded() {
        let pending = Pending::default();
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        let on_progress = Arc::new(move |_: &RawValue| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let raw = RawValue::from_string("{}".to_owned()).unwrap();
        let (id, mut first) = pending.open(Some(on_progress)).unwrap();
        for _ in 0..MAX_PROGRESS + 10 {
            pending.progress(id, &raw);
        }
        pending.answer(id, Ok(&raw));
        pending.answer(id, Ok(&raw));
        pending.progress(id, &raw);
        assert!(first.try_recv().unwrap().unwrap().is_ok());
        assert_eq!(count.load(Ordering::Relaxed), MAX_PROGRESS);
        assert!(!pending.forget(id));
    }

    #[test]
    fn the_end_of_a_connection_answers_what_is_open_and_refuses_what_follows() {
        let pending = Pending::default();
        let (_, mut open) = pending.open(None).unwrap();
        pending.end("ended");
        pending.end("later");
        assert_eq!(open.try_recv().unwrap().unwrap_err().as_ref(), "ended");
        assert_eq!(pending.open(None).unwrap_err().as_ref(), "ended");
        assert_eq!(pending.ended().as_deref(), Some("ended"));
    }
}
