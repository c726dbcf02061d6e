//! The deadline of a piece of work, and the abort that ends it earlier. It must never swallow the reason of an end.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use base::clock::Clock;
use turn::machine::Interrupt;

/// The deadline of some work, and its abort signal.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) abort: CancellationToken,
    pub(crate) deadline: Instant,
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
            () = tokio::time::sleep_until(self.deadline) => Err(Interrupt::Timeout),
        }
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
        self.deadline.saturating_duration_since(clock.instant())
    }
}

/// Milliseconds of a duration.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
