//! The port of what embeds texts: a function of the host, or a provider of the engine. It must never retry.

use std::future::Future;
use std::pin::Pin;

use model::EmbeddingCost;

/// Texts to embed.
#[derive(Debug, Clone)]
pub(crate) struct EmbedRequest {
    pub(crate) texts: Vec<String>,
    /// Whether it is the text of a search, and not one that is stored: some models make a difference.
    pub(crate) is_query: bool,
}

/// The vectors of the texts, in their order, as they were returned.
#[derive(Debug, Clone, Default)]
pub(crate) struct Embedded {
    pub(crate) vectors: Vec<Vec<f32>>,
    pub(crate) cost: EmbeddingCost,
}

/// What a failure is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EmbedFailureOf {
    /// The service: it may be over at the next attempt.
    Service,
    /// Probably the texts: others may succeed.
    Texts,
    /// The size of the answer: fewer texts may succeed.
    Size,
}

/// Why there are no vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EmbedFailure {
    pub(crate) message: String,
    pub(crate) of: EmbedFailureOf,
    /// How long the service wants to be left alone.
    pub(crate) retry_after_ms: Option<u64>,
}

impl EmbedFailure {
    /// A failure that may be over at the next attempt.
    pub(crate) fn passing(message: impl Into<String>) -> Self {
        Self { message: message.into(), of: EmbedFailureOf::Service, retry_after_ms: None }
    }
}

/// The outcome of one call.
pub(crate) type EmbedFuture = Pin<Box<dyn Future<Output = Result<Embedded, EmbedFailure>> + Send>>;

/// What embeds texts.
pub(crate) trait Embedder: Send + Sync {
    /// Embeds texts, in one call.
    fn embed(&self, request: EmbedRequest) -> EmbedFuture;
}
