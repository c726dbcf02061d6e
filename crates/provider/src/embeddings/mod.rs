//! Embeddings of the APIs that have them: the request for the vectors of texts, and the vectors in its answer. All of it is pure.
//!
//! It must never do I/O or judge a vector.

mod bedrock;
mod google;
mod ollama;
mod openai;

use std::future::Future;
use std::pin::Pin;

use crate::Failure;

pub(crate) use bedrock::BEDROCK;
pub(crate) use google::{GEMINI, VERTEX};
pub(crate) use ollama::OLLAMA;
pub(crate) use openai::OPENAI;

/// Texts to embed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmbedInput {
    /// The texts, none empty.
    pub texts: Vec<String>,
    /// Whether they are searches, and not what is searched.
    pub is_query: bool,
    /// The wanted length of a vector; `None` for the model's own.
    pub dimensions: Option<u32>,
}

/// The vectors of texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EmbedAnswer {
    /// One for each text, in their order.
    pub vectors: Vec<Vec<f32>>,
    /// The tokens of the texts, where the server reports them.
    pub tokens: Option<u64>,
}

/// The outcome of one request: `None` where the API has no embeddings.
pub type Embedding<'a> =
    Pin<Box<dyn Future<Output = Result<Option<EmbedAnswer>, Failure>> + Send + 'a>>;

/// How an API embeds.
pub struct EmbedApi {
    /// The most texts of one request.
    pub(crate) most: fn(model: &str) -> usize,
    /// The method below the model, or the path.
    pub(crate) path: fn(model: &str) -> String,
    /// The body, of at most so many texts.
    pub(crate) body: fn(model: &str, input: &EmbedInput) -> Vec<u8>,
    /// The vectors in the answer; `None` for anything that is no such answer.
    pub(crate) answer: fn(body: &[u8]) -> Option<EmbedAnswer>,
}

#[cfg(test)]
mod tests;
