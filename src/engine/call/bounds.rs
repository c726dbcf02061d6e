//! How long a piece of work may take, and what ends it before.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use base::clock::Clock;
use turn::machine::Interrupt;

/// The end of the time of some work, and the signal that ends it at once.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) abort: CancellationToken,
    pub(crate) deadline: Instant,
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

    /// What is left of the time.
    pub(crate) fn remaining(&self, clock: &Clock) -> Duration {
        self.deadline.saturating_duration_since(clock.instant())
    }
}
