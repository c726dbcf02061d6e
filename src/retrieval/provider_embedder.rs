//! Vectors from a provider of the engine, with its keys, limits and budgets. It must never judge a vector.

use std::sync::Arc;

use super::embedder::{
    EmbedFailure, EmbedFailureOf, EmbedFuture, EmbedRequest, Embedded, Embedder,
};
use super::spending::{Spending, nanos};
use crate::engine::{Engine, MEMORY_SESSION, MemoryModelCall};
use model::{CallPurpose, EmbeddingCost, Failure, FailureKind};
use provider::EmbedInput;

/// An embedding model of a provider.
pub(crate) struct ProviderEmbedder {
    pub(crate) engine: Arc<Engine>,
    pub(crate) to: MemoryModelCall,
    /// The length of a vector that is requested.
    pub(crate) dimensions: Option<u32>,
    pub(crate) spending: Spending,
}

impl Embedder for ProviderEmbedder {
    fn embed(&self, request: EmbedRequest) -> EmbedFuture {
        let engine = Arc::clone(&self.engine);
        let (to, spending) = (self.to.clone(), self.spending.clone());
        let dimensions = self.dimensions;
        Box::pin(async move {
            let most = engine.most_embedded(&to.provider, &to.model).max(1);
            let mut all = Embedded::default();
            all.cost.nanos = Some(0);
            for texts in request.texts.chunks(most) {
                let is_query = request.is_query;
                let input = EmbedInput { texts: texts.to_vec(), is_query, dimensions };
                let embedded = engine.embed(&to, input).await.map_err(failed)?;
                let (usage, cost) = (embedded.usage, embedded.cost);
                spending.note(&to, CallPurpose::Embed, MEMORY_SESSION, usage, cost);
                all.vectors.extend(embedded.vectors);
                let sum = all.cost.nanos.zip(cost.map(nanos)).map(|(sum, more)| sum + more);
                let tokens = all.cost.tokens + usage.total_tokens;
                all.cost = EmbeddingCost { tokens, nanos: sum };
            }
            Ok(all)
        })
    }
}

fn failed(failure: Failure) -> EmbedFailure {
    let wait = failure.retry_after.and_then(|wait| u64::try_from(wait.as_millis()).ok());
    EmbedFailure { of: of(&failure), retry_after_ms: wait, message: failure.message }
}

/// What a failure is about. A refusal without a reason may be about the texts: the caller finds out.
fn of(failure: &Failure) -> EmbedFailureOf {
    let is_refused = failure.kind == FailureKind::Unknown
        && failure.status.is_some_and(|status| (400..500).contains(&status));
    match failure.code.as_deref() {
        // A hook that fails is not about the texts.
        Some("on_request_failed") => EmbedFailureOf::Service,
        Some("response_too_large") => EmbedFailureOf::Size,
        _ if is_refused => EmbedFailureOf::Texts,
        _ => match failure.kind {
            FailureKind::Format | FailureKind::ContextOverflow | FailureKind::Refusal => {
                EmbedFailureOf::Texts
            }
            _ => EmbedFailureOf::Service,
        },
    }
}
