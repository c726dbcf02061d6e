//! One run per session: the next one waits until the running one has committed (docs/rules/sessions-and-ledger.md#one-run-per-session).
//!
//! It orders the runs of this process, over all engines on one ledger; the ledger's compare-and-set guards against other
//! processes. It must never run two turns of one session at the same time.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::OwnedMutexGuard;

type Lanes = Arc<Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>>;

/// The lanes of the process, by ledger and session.
static LANES: LazyLock<Lanes> = LazyLock::new(Lanes::default);

/// The lanes of one ledger's sessions with a running or a waiting run; other lanes are dropped.
#[derive(Clone)]
pub(crate) struct SessionLanes {
    lanes: Lanes,
    /// The ledger's ULID, the prefix of every label.
    ledger: String,
}

/// A ticket of a session's queue. Dropping it leaves the queue.
pub(crate) struct LaneTicket {
    turn: Turn,
    // Declared after the lane's guard: fields are dropped in this order.
    entry: Entry,
}

enum Turn {
    Held(OwnedMutexGuard<()>),
    Waiting(Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send>>),
}

/// The right to run a session; the next run starts when it is dropped.
pub(crate) struct Lane {
    _guard: OwnedMutexGuard<()>,
    _entry: Entry,
}

/// The session's entry among the lanes, which is removed with its last user.
struct Entry {
    lanes: Lanes,
    label: String,
}

impl SessionLanes {
    /// The lanes of a ledger, shared with every engine of the process that uses it.
    pub(crate) fn of(ledger: String) -> Self {
        Self { lanes: Arc::clone(&LANES), ledger }
    }

    /// Queues for the session immediately, so that runs follow in the order they were started in, whichever of their tasks is
    /// polled first.
    pub(crate) fn queue(&self, label: &str) -> LaneTicket {
        // Labels and ids have no control characters.
        let name = format!("{}\0{label}", self.ledger);
        let entry = Entry { lanes: Arc::clone(&self.lanes), label: name.clone() };
        let lane = Arc::clone(
            self.lanes.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default(),
        );
        let mut waiting: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(lane.lock_owned());
        // The first poll joins the queue; the later wait sets the waker.
        let turn = match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(guard) => Turn::Held(guard),
            Poll::Pending => Turn::Waiting(waiting),
        };
        LaneTicket { turn, entry }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.keys().filter(|name| name.starts_with(&self.ledger)).count()
    }
}

impl LaneTicket {
    /// Whether another run has the session.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.turn, Turn::Waiting(_))
    }

    /// Waits for the session.
    pub(crate) async fn enter(self) -> Lane {
        // Bound in this order, so that a cancelled wait leaves the queue before its entry is dropped.
        let entry = self.entry;
        let turn = self.turn;
        let guard = match turn {
            Turn::Held(guard) => guard,
            Turn::Waiting(waiting) => waiting.await,
        };
        Lane { _guard: guard, _entry: entry }
    }
}

impl From<Lane> for LaneTicket {
    /// The ticket of a run that has entered.
    fn from(Lane { _guard: guard, _entry: entry }: Lane) -> Self {
        Self { turn: Turn::Held(guard), entry }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        // Only the map refers to it: no run and no wait.
        if lanes.get(&self.label).is_some_and(|lane| Arc::strong_count(lane) == 1) {
            lanes.remove(&self.label);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SessionLanes;

    #[tokio::test]
    async fn a_session_runs_one_at_a_time_and_leaves_nothing_behind() {
        let sessions = SessionLanes::of("test 1".to_owned());
        let first = sessions.queue("a").enter().await;
        let other = sessions.queue("b").enter().await;
        let waiting = sessions.queue("a").enter();
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(first);
        let second = waiting.await;
        drop(second);
        drop(other);
        assert_eq!(sessions.len(), 0);
    }

    #[tokio::test]
    async fn runs_follow_in_the_order_of_queueing_not_of_waiting() {
        let sessions = SessionLanes::of("test 2".to_owned());
        let running = sessions.queue("a").enter().await;
        let (second, third) = (sessions.queue("a"), sessions.queue("a"));
        let mut third = Box::pin(third.enter());
        assert!(futures_util::poll!(&mut third).is_pending());
        drop(running);
        assert!(futures_util::poll!(&mut third).is_pending());
        drop(second.enter().await);
        drop(third.await);
        assert_eq!(sessions.len(), 0);
    }

    #[tokio::test]
    async fn a_run_that_leaves_the_queue_leaves_no_lane_behind() {
        let sessions = SessionLanes::of("test 3".to_owned());
        let running = sessions.queue("a").enter().await;
        let ticket = sessions.queue("a");
        let mut waiting = Box::pin(sessions.queue("a").enter());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(running);
        drop(ticket);
        drop(waiting);
        assert_eq!(sessions.len(), 0);
    }
}
