//! The admission of tool calls: parallel tools run together, a sequential one alone, and all are admitted in call order.
//!
//! It must never admit a later call before an earlier one that it may not run beside.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use model::ExecutionMode;

/// The most permits: a sequential tool takes all, a parallel tool one.
const MOST: u32 = 1 << 16;

/// One per run. Cheap to create.
#[derive(Debug, Clone)]
pub struct AdmissionQueue {
    permits: Arc<Semaphore>,
    all: u32,
}

impl AdmissionQueue {
    /// A queue that admits at most `parallel` tools at once.
    #[must_use]
    pub fn new(parallel: u32) -> Self {
        let all = parallel.clamp(1, MOST);
        Self { permits: Arc::new(Semaphore::new(usize::try_from(all).unwrap_or(1))), all }
    }

    /// Queues a call. The order of these calls is the order of admission, regardless of the order in which the tickets are
    /// awaited. Dropping a ticket returns its permits.
    #[must_use]
    pub fn queue(&self, mode: ExecutionMode) -> Ticket {
        let permits = match mode {
            ExecutionMode::Sequential => self.all,
            ExecutionMode::Parallel => 1,
        };
        let mut admission: Admission =
            Box::pin(Arc::clone(&self.permits).acquire_many_owned(permits));
        // The semaphore is fair from the first poll on, so the first poll happens here.
        match (&mut admission).now_or_never() {
            Some(admitted) => Ticket { admission: Box::pin(std::future::ready(admitted)) },
            None => Ticket { admission },
        }
    }
}

type Admission = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// A position in the queue.
pub struct Ticket {
    admission: Admission,
}

impl Ticket {
    /// Waits for admission. The permit is held until it is dropped; never `None`, because the semaphore is never closed.
    pub(super) async fn admitted(self) -> Option<OwnedSemaphorePermit> {
        self.admission.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::AdmissionQueue;
    use model::ExecutionMode::{Parallel, Sequential};

    #[test]
    fn no_more_parallel_tools_run_at_once_than_the_limit() {
        for limit in [0, 1, 2, 5] {
            let admissions = AdmissionQueue::new(limit);
            let mut waiting: Vec<_> =
                (0..8).map(|_| Box::pin(admissions.queue(Parallel).admitted())).collect();
            let running: Vec<_> =
                waiting.iter_mut().filter_map(|it| it.now_or_never().flatten()).collect();
            assert_eq!(running.len(), usize::try_from(limit.max(1)).unwrap());
        }
    }

    #[test]
    fn a_dropped_ticket_and_a_finished_call_admit_the_next_in_order() {
        let admissions = AdmissionQueue::new(8);
        let first = admissions.queue(Sequential).admitted().now_or_never().flatten();
        assert!(first.is_some());
        let withdrawn = admissions.queue(Sequential);
        let third = admissions.queue(Parallel).admitted();
        let mut fourth = Box::pin(admissions.queue(Sequential).admitted());
        drop(withdrawn);
        assert!((&mut fourth).now_or_never().is_none(), "the first runs");
        drop(first);
        assert!((&mut fourth).now_or_never().is_none(), "polled first, but queued after the third");
        let third = third.now_or_never().flatten();
        assert!(third.is_some());
        assert!((&mut fourth).now_or_never().is_none(), "not beside the third");
        drop(third);
        assert!(fourth.now_or_never().flatten().is_some());
    }
}
