//! The port of a model service.
//!
//! One attempt is one complete response or one typed failure. It must never retry, or know turns or tools.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use crate::{Credential, Embedding, ModelRequest};
use model::{Api, Completion, DeltaSink, Failure, Message, RunWarning, TranscriptRules};

/// The outcome of one attempt.
pub type Attempted<'a> = Pin<Box<dyn Future<Output = Result<Completion, Failure>> + Send + 'a>>;

/// The outcome of a count: `None` where the API cannot count.
pub type Counted<'a> = Pin<Box<dyn Future<Output = Result<Option<u64>, Failure>> + Send + 'a>>;

/// A model service. Dropping the future of [`Provider::stream`] closes its socket.
pub trait Provider: Send + Sync {
    /// The API it speaks; decides projection (docs/rules/projection.md#passes) and provenance.
    fn api(&self) -> Api;

    /// The transcript rules of the server beyond its API.
    fn transcript_rules(&self) -> TranscriptRules {
        TranscriptRules::default()
    }

    /// Writes projected messages as the API's JSON message objects, separated by commas, without brackets. Pure: the same
    /// messages give the same bytes, so that a session's prefix can be reused (docs/rules/compaction.md#prompt-cache-stability).
    fn encode_messages(&self, messages: &[Message]) -> Bytes;

    /// Sends one request. `sink` receives everything as it arrives; its content stays valid after a failure.
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        credential: Option<&'a Credential>,
        sink: &'a mut dyn DeltaSink,
    ) -> Attempted<'a>;

    /// Closes idle connections, including those that were never used: a server that waits for its clients at shutdown would
    /// wait for them.
    fn disconnect(&self) {}

    /// The options of `request` that the API cannot express. See [`crate::Wire::unsupported`].
    fn unsupported(&self, _request: &ModelRequest) -> Vec<RunWarning> {
        Vec::new()
    }

    /// Requests the number of tokens of the prompt of `request`.
    fn count<'a>(
        &'a self,
        _request: &'a ModelRequest,
        _credential: Option<&'a Credential>,
    ) -> Counted<'a> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The most texts of one request for vectors; `None` where the API has none.
    fn most_embedded(&self, _model: &str) -> Option<usize> {
        None
    }

    /// Requests the vectors of the texts of `request`, in one request.
    fn embed<'a>(
        &'a self,
        _request: &'a ModelRequest,
        _credential: Option<&'a Credential>,
    ) -> Embedding<'a> {
        Box::pin(std::future::ready(Ok(None)))
    }
}
