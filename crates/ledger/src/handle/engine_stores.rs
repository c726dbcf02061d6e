//! The ports `ProfileStore` and `RatioStore`: the state of auth profiles, and the calibration of models.
//!
//! It must never decide what is worth storing.

use crate::handle::ledger::Ledger;
use crate::journal::profiles::{self, Used};
use crate::journal::{calibration, rates};
use model::{
    PortFuture, ProfileChange, ProfileStore, ProfileUsage, RateChange, RatioStore, TokenRatio,
};

impl ProfileStore for Ledger {
    fn usage(&self) -> PortFuture<'static, Vec<(String, ProfileUsage)>> {
        let core = self.core();
        Box::pin(async move {
            let core = core?;
            let claim = core.claim.clone();
            core.readers.run(move |connection| profiles::all(connection, &claim)).await
        })
    }

    fn used(&self, id: &str, at_ms: i64) {
        let Ok(core) = self.core() else { return };
        core.writer.post(Box::new(Used::new(id, at_ms, &core.claim)));
    }

    fn change(&self, id: &str, mut apply: ProfileChange) -> PortFuture<'static, ProfileUsage> {
        let id = id.to_owned();
        let submitted = self.core().map(|core| {
            let claim = core.claim.clone();
            core.writer
                .submit(move |connection| profiles::change(connection, &id, &claim, &mut apply))
        });
        Box::pin(async move { submitted?.await })
    }

    fn rates(&self, queue: &str) -> PortFuture<'static, (Option<String>, i64)> {
        let (queue, core, now) = (queue.to_owned(), self.core(), self.clock.now_ms());
        Box::pin(async move {
            let core = core?;
            let state = core.readers.run(move |connection| rates::state(connection, &queue));
            Ok((state.await?, now))
        })
    }

    fn change_rates(&self, queue: &str, mut apply: RateChange) -> PortFuture<'static, ()> {
        let (queue, clock) = (queue.to_owned(), self.clock.clone());
        // The next answers say what is left: a power cut costs nothing.
        let submitted = self.core().map(|core| {
            core.writer.submit_repeatable(move |connection| {
                rates::change(connection, &queue, clock.now_ms(), &mut apply)
            })
        });
        Box::pin(async move { submitted?.await })
    }
}

impl RatioStore for Ledger {
    fn ratios(&self) -> PortFuture<'static, Vec<TokenRatio>> {
        let core = self.core();
        Box::pin(async move { core?.readers.run(|connection| calibration::all(connection)).await })
    }

    fn store_ratio(&self, ratio: TokenRatio) -> PortFuture<'static, ()> {
        let submitted = self.core().map(|core| {
            core.writer.submit(move |connection| calibration::store(connection, &ratio))
        });
        Box::pin(async move { submitted?.await })
    }
}
