//! The calibration of the engine's models: learnt from each answer, stored in memory and in the ledger, if there is one, for
//! restarts and other processes.
//!
//! It must never delay a call because of a failed read or write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use base::clock::Clock;
use base::telemetry;
use model::{RatioStore, TokenRatio};
use turn::calibration::Ratio;

/// The interval at which the store is read again for ratios of other processes.
const FRESH: Duration = Duration::from_secs(60);
/// The smallest change that is written, in thousandths of the stored ratio.
const WORTH: u32 = 20;
/// The largest number of models; further ones are not learnt.
const MOST_MODELS: usize = 1_000;

#[derive(Default)]
struct Known {
    ratio: Ratio,
    /// The ratio in the store.
    stored: Option<Ratio>,
    updated_at: i64,
}

/// By provider and model.
type Ratios = HashMap<(String, String), Known>;

/// The ratios of an engine's models.
pub(crate) struct Calibrations {
    ratios: Mutex<Ratios>,
    /// The time of the last read of the store; locked during a read, so that no estimate precedes the first one.
    read: tokio::sync::Mutex<Option<Instant>>,
    store: Option<Arc<dyn RatioStore>>,
    clock: Clock,
}

impl Calibrations {
    pub(crate) fn new(store: Option<Arc<dyn RatioStore>>, clock: Clock) -> Self {
        Self { ratios: Mutex::default(), read: tokio::sync::Mutex::default(), store, clock }
    }

    fn ratios(&self) -> MutexGuard<'_, Ratios> {
        self.ratios.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the store again, if the last read is not recent.
    pub(crate) async fn refresh(&self) {
        let Some(store) = &self.store else { return };
        let mut read = self.read.lock().await;
        let now = self.clock.instant();
        if read.is_some_and(|at| now.saturating_duration_since(at) < FRESH) {
            return;
        }
        // Also after a failure: an unknown model is estimated without a ratio.
        *read = Some(now);
        match store.ratios().await {
            Ok(rows) => {
                let mut ratios = self.ratios();
                for TokenRatio { provider, model, per_mille, samples, updated_at } in rows {
                    if ratios.len() >= MOST_MODELS {
                        break;
                    }
                    let known = ratios.entry((provider, model)).or_default();
                    if known.ratio.samples() == 0 || updated_at > known.updated_at {
                        let ratio = Ratio::stored(per_mille, samples);
                        *known = Known { ratio, stored: Some(ratio), updated_at };
                    }
                }
            }
            Err(error) => telemetry::storage_failed(error.kind.code()),
        }
    }

    /// The ratio of `model`, if it is known.
    pub(crate) fn of(&self, provider: &str, model: &str) -> Ratio {
        let name = (provider.to_owned(), model.to_owned());
        self.ratios().get(&name).map(|known| known.ratio).unwrap_or_default()
    }

    /// Learns from an answered call, whose prompt had `reported` tokens and was estimated, without a ratio, at `estimated`.
    pub(crate) fn learn(&self, provider: &str, model: &str, reported: u64, estimated: u64) {
        let name = (provider.to_owned(), model.to_owned());
        let mut ratios = self.ratios();
        if ratios.len() >= MOST_MODELS && !ratios.contains_key(&name) {
            return;
        }
        let known = ratios.entry(name).or_default();
        if !known.ratio.learn(reported, estimated) {
            return;
        }
        let now = self.clock.now_ms();
        known.updated_at = now;
        let Some(store) = &self.store else { return };
        let ratio = known.ratio;
        let per_mille = ratio.per_mille();
        let is_worth = known.stored.is_none_or(|stored| {
            per_mille.abs_diff(stored.per_mille()) * 1_000 > stored.per_mille() * WORTH
        });
        if is_worth {
            known.stored = Some(ratio);
            drop(ratios);
            // It is written in the background; a lost ratio is learnt again.
            drop(store.store_ratio(TokenRatio {
                provider: provider.to_owned(),
                model: model.to_owned(),
                per_mille,
                samples: ratio.samples(),
                updated_at: now,
            }));
        }
    }
}
