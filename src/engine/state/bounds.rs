//! The deadline of a piece of work, and the abort that ends it earlier. It must never swallow the reason of an end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::control::RunControl;
use base::clock::Clock;
use turn::machine::Interrupt;

/// The deadline of some work, and its abort signal.
#[derive(Clone)]
pub(crate) struct Bounds {
    pub(crate) abort: CancellationToken,
    /// Without the pauses of the run.
    pub(crate) deadline: Instant,
    /// The run whose pauses move the deadline.
    pub(crate) run: Option<Arc<RunControl>>,
}

/// Why bounded work has no value.
#[derive(Debug)]
pub(crate) enum Unfinished<E = String> {
    /// An abort, or the deadline: the run ends.
    Interrupted(Interrupt),
    /// The work itself failed.
    Failed(E),
}

impl Bounds {
    /// Waits for `work`, the abort, or the deadline, whichever comes first.
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, Interrupt> {
        tokio::select! {
            biased;
            () = self.abort.cancelled() => Err(Interrupt::Abort),
            done = work => Ok(done),
            () = self.expired() => Err(Interrupt::Timeout),
        }
    }

    /// Resolves when the time is over, pauses apart.
    async fn expired(&self) {
        let mut at = self.deadline;
        loop {
            tokio::time::sleep_until(at).await;
            let Some(run) = &self.run else { return };
            let later = self.deadline + run.pauses().over().await;
            if later <= at {
                return;
            }
            at = later;
        }
    }

    /// From now on, `remaining` is left.
    pub(crate) fn restart(&mut self, remaining: Duration, clock: &Clock) {
        let now = clock.instant();
        let paused = self.run.as_ref().map_or(Duration::ZERO, |run| run.pauses().total(now));
        // Past pauses move this deadline, too.
        self.deadline = (now + remaining).checked_sub(paused).unwrap_or(now);
    }

    /// As [`Self::guard`], for work that may fail.
    pub(crate) async fn try_guard<T, E>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Unfinished<E>> {
        match self.guard(work).await {
            Ok(done) => done.map_err(Unfinished::Failed),
            Err(cause) => Err(Unfinished::Interrupted(cause)),
        }
    }

    /// The remaining time.
    pub(crate) fn remaining(&self, clock: &Clock) -> Duration {
        let now = clock.instant();
        let paused = self.run.as_ref().map_or(Duration::ZERO, |run| run.pauses().total(now));
        (self.deadline + paused).saturating_duration_since(now)
    }
}

/// Milliseconds of a duration.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
