//! The ports `ProfileStore` and `RatioStore`.
//!
//! It must never decide what is worth storing.

use model::{
    PortFuture, ProfileChange, ProfileStore, ProfileUsage, RateChange, RatioStore, TokenRatio,
};

use crate::handle::postgres::Postgres;
use crate::journal::profiles;

/// The changes of all profiles run one after the other, in the order of their calls.
const PROFILES: Option<&str> = Some("\0profiles");
/// So do those of the limits that processes share.
const RATES: &str = "\0rates";

impl ProfileStore for Postgres {
    fn usage(&self) -> PortFuture<'static, Vec<(String, ProfileUsage)>> {
        self.submit(PROFILES, |server| async move { profiles::all(&server).await })
    }

    fn used(&self, id: &str, at_ms: i64) {
        let id = id.to_owned();
        drop(self.submit(PROFILES, move |server| async move {
            profiles::used(&server, &id, at_ms).await
        }));
    }

    fn change(&self, id: &str, change: ProfileChange) -> PortFuture<'static, ProfileUsage> {
        let id = id.to_owned();
        self.submit(
            PROFILES,
            move |server| async move { profiles::change(&server, &id, change).await },
        )
    }

    fn rates(&self, queue: &str) -> PortFuture<'static, (Option<String>, i64)> {
        let queue = queue.to_owned();
        self.submit(None, move |server| async move { profiles::rates(&server, &queue).await })
    }

    fn change_rates(&self, queue: &str, change: RateChange) -> PortFuture<'static, ()> {
        let queue = queue.to_owned();
        self.submit(Some(RATES), move |server| async move {
            profiles::change_rates(&server, &queue, change).await
        })
    }
}

impl RatioStore for Postgres {
    fn ratios(&self) -> PortFuture<'static, Vec<TokenRatio>> {
        self.submit(None, |server| async move { profiles::ratios(&server).await })
    }

    fn store_ratio(&self, ratio: TokenRatio) -> PortFuture<'static, ()> {
        self.submit(None, move |server| async move { profiles::store_ratio(&server, &ratio).await })
    }
}
