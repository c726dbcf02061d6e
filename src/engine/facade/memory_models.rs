//! What the memory needs of an engine: vectors and answers of its providers, and the keys that no stored text may have. It must never retry.

use std::sync::Arc;
use std::time::Duration;

use super::super::memory_calls::{
    CallParts, CompletedText, EmbeddedTexts, TextRequest, complete, embed,
};
use super::engine::Engine;
use model::{Failure, FailureKind};
use provider::{EmbedInput, KnownKeys, RequestHost};

/// A model that the memory calls, and how.
#[derive(Clone)]
pub(crate) struct MemoryModelCall {
    pub(crate) provider: String,
    pub(crate) model: String,
    /// The host that inspects its requests.
    pub(crate) hook: Option<Arc<dyn RequestHost>>,
    /// The time of one request.
    pub(crate) limit: Duration,
}

impl Engine {
    /// The keys of the engine's profiles.
    pub(crate) fn known_keys(&self) -> KnownKeys {
        self.shared.keys.known()
    }

    /// The most texts of one request for vectors. 1 for a provider that is not known: its request fails.
    pub(crate) fn most_embedded(&self, provider: &str, model: &str) -> usize {
        let entry = self.providers.named(provider).ok();
        entry.and_then(|entry| entry.provider.most_embedded(model)).unwrap_or(1)
    }

    /// Embeds texts in one request.
    ///
    /// # Errors
    /// The provider failed, a budget is spent, or the engine closes.
    pub(crate) async fn embed(
        &self,
        to: &MemoryModelCall,
        input: EmbedInput,
    ) -> Result<EmbeddedTexts, Failure> {
        embed(self.call_parts(to)?, input).await
    }

    /// Asks a model in one request.
    ///
    /// # Errors
    /// The provider failed, a budget is spent, or the engine closes.
    pub(crate) async fn complete(
        &self,
        to: &MemoryModelCall,
        input: TextRequest,
    ) -> Result<CompletedText, Failure> {
        complete(self.call_parts(to)?, input).await
    }

    fn call_parts<'a>(&'a self, to: &'a MemoryModelCall) -> Result<CallParts<'a>, Failure> {
        let MemoryModelCall { provider, model, hook, limit } = to;
        let entry = self.providers.named(provider).map_err(|error| {
            Failure::new(FailureKind::Unknown, "unknown_provider", error.message)
        })?;
        Ok(CallParts {
            shared: &self.shared,
            failover: &self.failover,
            entry,
            provider_name: provider.clone(),
            model: self.providers.model(provider, model, entry.provider.api()).ok(),
            model_name: model.clone(),
            hook: hook.as_ref(),
            limit: *limit,
        })
    }
}
