//! The limits of a rate queue that all processes of a ledger share (docs/rules/failover.md#shared-limits).
//!
//! `turn/governor` decides. It must never fail or hold back a call because the ledger fails.

use std::sync::{Arc, Mutex, PoisonError};

use base::telemetry;
use model::{ProfileStore, RateChange, RateLimits, StorageError};
use turn::governor::{Claimed, Local, SharedLimits};

pub(super) struct SharedRate {
    store: Arc<dyn ProfileStore>,
    queue: String,
    pub(super) process: String,
}

/// What the shared limits say to a call.
pub(super) enum Outcome {
    /// It may be sent, after the answers that had settled so much.
    Granted([u64; 4]),
    /// It asks again after so many milliseconds.
    Wait(u64),
    /// The ledger did not answer.
    Unknown,
}

impl SharedRate {
    /// The limits of the queue with this name.
    pub(super) fn new(store: &Arc<dyn ProfileStore>, queue: String, process: &str) -> Self {
        Self { store: Arc::clone(store), queue, process: process.to_owned() }
    }

    /// Whether some process is near the limits.
    pub(super) async fn is_near(&self) -> bool {
        match self.store.rates(&self.queue).await {
            Ok((None, _)) => false,
            Ok((state, now)) => SharedLimits::parse(state.as_deref(), now).is_near(),
            Err(error) => {
                failed(&error);
                false
            }
        }
    }

    /// Asks for a call.
    pub(super) async fn claim(&self, local: Local) -> Outcome {
        let outcome = Arc::new(Mutex::new(Outcome::Unknown));
        let decided = Arc::clone(&outcome);
        let change: RateChange = Box::new(move |state, now| {
            let mut limits = SharedLimits::parse(state, now);
            let claimed = match limits.claim(&local) {
                Claimed::Granted(settled) => Outcome::Granted(settled),
                Claimed::Wait(time) => {
                    Outcome::Wait(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
                }
            };
            *decided.lock().unwrap_or_else(PoisonError::into_inner) = claimed;
            limits.text()
        });
        if let Err(error) = self.store.change_rates(&self.queue, change).await {
            failed(&error);
            return Outcome::Unknown;
        }
        let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut outcome, Outcome::Unknown)
    }

    /// Changes the state, and does not wait for it.
    fn change(&self, mut change: impl FnMut(&mut SharedLimits) + Send + 'static) {
        let change: RateChange = Box::new(move |state, now| {
            let mut limits = SharedLimits::parse(state, now);
            change(&mut limits);
            limits.text()
        });
        drop(self.store.change_rates(&self.queue, change));
    }

    /// The server has answered the call. `well`: it was not refused; `forced`: it was sent although the limits did not admit it.
    pub(super) fn answered(
        &self,
        local: Local,
        settled: Option<[u64; 4]>,
        (well, forced): (bool, bool),
        limits: RateLimits,
    ) {
        self.change(move |shared| {
            if well && forced {
                shared.forget();
            }
            shared.answered(&local, settled, well, &limits);
        });
    }

    /// The call was refused for its rate.
    pub(super) fn refused(&self, wait: Option<std::time::Duration>) {
        self.change(move |shared| shared.refused(wait));
    }

    /// The call has ended. `sent`: the server may have counted it.
    pub(super) fn ended(&self, local: Local, sent: bool) {
        self.change(move |shared| match sent {
            true => shared.leave(&local),
            false => shared.withdrawn(&local),
        });
    }
}

fn failed(error: &StorageError) {
    telemetry::storage_failed(error.kind.code());
}
