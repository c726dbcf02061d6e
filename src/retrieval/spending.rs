//! What the memory's calls of models have used, written behind them. It must never hold up a call.

use std::sync::Arc;

use crate::engine::{MemoryModelCall, Tasks};
use base::clock::Clock;
use base::telemetry;
use model::{CallPurpose, MemoryCall, MemoryStore, TokenUsage};

/// Where usage is written.
#[derive(Clone)]
pub(crate) struct Spending {
    pub(crate) store: Arc<dyn MemoryStore>,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
}

impl Spending {
    /// Adds a call; `cost` is in US dollars.
    pub(super) fn note(
        &self,
        to: &MemoryModelCall,
        purpose: CallPurpose,
        session_label: &str,
        usage: TokenUsage,
        cost: Option<f64>,
    ) {
        let call = MemoryCall {
            session_label: session_label.to_owned(),
            provider: to.provider.clone(),
            model: to.model.clone(),
            purpose,
            usage,
            nanos: cost.map(nanos),
            at: self.clock.now_ms(),
        };
        let written = self.store.used(call);
        self.tasks.spawn(async move {
            if let Err(error) = written.await {
                telemetry::storage_failed(error.kind.code());
            }
        });
    }
}

/// Dollars in billionths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cost is small and not negative"
)]
pub(super) fn nanos(dollars: f64) -> u64 {
    (dollars * 1e9).round().max(0.0) as u64
}
