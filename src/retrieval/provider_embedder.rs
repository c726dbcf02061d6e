//! Vectors from a provider of the engine, with its keys, limits and budgets. It must never judge a vector.

use std::sync::Arc;
use std::time::Duration;

use super::embedder::{EmbedFailure, EmbedFuture, EmbedRequest, Embedded, Embedder};
use crate::engine::Engine;
use model::{EmbeddingCost, Failure, FailureKind};
use provider::EmbedInput;

/// An embedding model of a provider.
pub(crate) struct ProviderEmbedder {
    pub(crate) engine: Arc<Engine>,
    pub(crate) provider: String,
    pub(crate) model: String,
    /// The length of a vector that is requested.
    pub(crate) dimensions: Option<u32>,
    pub(crate) timeout: Duration,
}

impl Embedder for ProviderEmbedder {
    fn embed(&self, request: EmbedRequest) -> EmbedFuture {
        let engine = Arc::clone(&self.engine);
        let (provider, model) = (self.provider.clone(), self.model.clone());
        let (dimensions, timeout) = (self.dimensions, self.timeout);
        Box::pin(async move {
            let most = engine.most_embedded(&provider, &model).max(1);
            let mut all = Embedded::default();
            all.cost.nanos = Some(0);
            for texts in request.texts.chunks(most) {
                let is_query = request.is_query;
                let input = EmbedInput { texts: texts.to_vec(), is_query, dimensions };
                let embedded =
                    engine.embed(&provider, &model, input, timeout).await.map_err(failed)?;
                all.vectors.extend(embedded.vectors);
                let nanos = embedded.cost.map(nanos);
                let sum = all.cost.nanos.zip(nanos).map(|(sum, more)| sum + more);
                all.cost = EmbeddingCost { tokens: all.cost.tokens + embedded.tokens, nanos: sum };
            }
            Ok(all)
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cost is small and not negative"
)]
fn nanos(dollars: f64) -> u64 {
    (dollars * 1e9).round().max(0.0) as u64
}

fn failed(failure: Failure) -> EmbedFailure {
    let wait = failure.retry_after.and_then(|wait| u64::try_from(wait.as_millis()).ok());
    EmbedFailure {
        is_about_texts: matches!(
            failure.kind,
            FailureKind::Format | FailureKind::ContextOverflow | FailureKind::Refusal
        ),
        retry_after_ms: wait,
        message: failure.message,
    }
}
