//! The pauses of a run's time: while an agent for which it waits waits for a person, its time stands still.
//!
//! It must never cost a run without a pause anything but the look whether there was one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Default)]
struct State {
    count: u32,
    since: Option<Instant>,
    /// The length of the pauses that have ended.
    total: Duration,
}

/// The pauses of one run.
#[derive(Default)]
pub(crate) struct Pauses {
    /// Whether there was one.
    any: AtomicBool,
    state: Mutex<State>,
    ended: Notify,
}

impl Pauses {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more reason for a pause.
    pub(super) fn begin(&self, now: Instant) {
        let mut state = self.lock();
        state.count += 1;
        state.since.get_or_insert(now);
        self.any.store(true, Ordering::Release);
    }

    /// One reason less. The time goes on with the last.
    pub(super) fn end(&self, now: Instant) {
        let mut state = self.lock();
        state.count = state.count.saturating_sub(1);
        if state.count == 0
            && let Some(since) = state.since.take()
        {
            state.total += now.saturating_duration_since(since);
            self.ended.notify_waiters();
        }
    }

    /// The length of the pauses so far.
    pub(super) fn total(&self, now: Instant) -> Duration {
        if !self.any.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        let state = self.lock();
        match state.since {
            Some(since) => state.total + now.saturating_duration_since(since),
            None => state.total,
        }
    }

    /// Waits until the time does not stand still. Returns the length of the pauses.
    pub(super) async fn over(&self) -> Duration {
        if !self.any.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            {
                let state = self.lock();
                if state.count == 0 {
                    return state.total;
                }
            }
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Pauses;
    use base::clock::Clock;

    #[test]
    fn pauses_that_overlap_count_once() {
        let (pauses, start) = (Pauses::default(), Clock::default().instant());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(pauses.total(at(9)), Duration::ZERO);
        pauses.begin(at(1));
        pauses.begin(at(2));
        pauses.end(at(4));
        assert_eq!(pauses.total(at(5)), Duration::from_secs(4));
        pauses.end(at(6));
        pauses.begin(at(10));
        pauses.end(at(11));
        assert_eq!(pauses.total(at(20)), Duration::from_secs(6));
    }
}
