//! Vectors of texts, from a provider of the engine. It must never retry.

use std::time::Duration;

use super::super::embed::{EmbedParts, EmbeddedTexts, embed};
use super::engine::Engine;
use model::{Failure, FailureKind};
use provider::EmbedInput;

impl Engine {
    /// The most texts of one request for vectors. 1 for a provider that is not known: its request fails.
    pub(crate) fn most_embedded(&self, provider: &str, model: &str) -> usize {
        let entry = self.providers.named(provider).ok();
        entry.and_then(|entry| entry.provider.most_embedded(model)).unwrap_or(1)
    }

    /// Embeds texts in one request of at most so many milliseconds.
    ///
    /// # Errors
    /// The provider failed, a budget is spent, or the engine closes.
    pub(crate) async fn embed(
        &self,
        provider: &str,
        model: &str,
        input: EmbedInput,
        limit: Duration,
    ) -> Result<EmbeddedTexts, Failure> {
        let entry = self.providers.named(provider).map_err(|error| {
            Failure::new(FailureKind::Unknown, "unknown_provider", error.message)
        })?;
        let parts = EmbedParts {
            shared: &self.shared,
            failover: &self.failover,
            entry,
            provider_name: provider.to_owned(),
            model: self.providers.model(provider, model, entry.provider.api()).ok(),
            model_name: model.to_owned(),
        };
        embed(parts, input, limit).await
    }
}
