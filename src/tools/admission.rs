//! The admission of tool calls: parallel tools run together, a sequential one alone, and all are admitted in call order.
//!
//! It must never admit a later call before an earlier one that it may not run beside.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use model::ExecutionMode;

/// The number of permits: a sequential tool takes all, a parallel tool one.
const PERMITS: u32 = 1 << 16;

/// One per run. Cheap to create.
#[derive(Debug, Clone)]
pub(crate) struct AdmissionQueue {
    permits: Arc<Semaphore>,
}

impl Default for AdmissionQueue {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(usize::try_from(PERMITS).unwrap_or(1))) }
    }
}

impl AdmissionQueue {
    /// Queues a call. The order of these calls is the order of admission, regardless of the order in which the tickets are
    /// awaited. Dropping a ticket returns its permits.
    #[must_use]
    pub(crate) fn queue(&self, mode: ExecutionMode) -> Ticket {
        let permits = match mode {
            ExecutionMode::Sequential => PERMITS,
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
pub(crate) struct Ticket {
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
    fn a_dropped_ticket_and_a_finished_call_admit_the_next_in_order() {
        let admissions = AdmissionQueue::default();
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
