//! Vectors from a function of the host: the texts are a record of the environment's queue, and the vectors are returned by its number.
//!
//! It must never check a vector: the memory does.

use std::sync::{Arc, Weak};

use serde::Serialize;

use super::answers::Answers;
use crate::node::hub::HubCore;
use crate::retrieval::{EmbedFailure, EmbedFuture, EmbedRequest, Embedded, Embedder};

/// The answer to a request for vectors.
pub(in crate::node) type EmbedAnswers = Answers<Result<Embedded, EmbedFailure>>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    /// The engine's number in its environment.
    embed: u32,
    number: u32,
    texts: &'a [String],
    is_query: bool,
}

/// The embedder function of one engine.
pub(in crate::node) struct JsEmbedder {
    /// Weak: the hub refers to the queues of engines, and outlives them.
    pub(in crate::node) hub: Weak<HubCore>,
    pub(in crate::node) keys: u32,
    pub(in crate::node) answers: Arc<EmbedAnswers>,
}

/// Removes a request when its answer is no longer needed.
struct PendingRequest {
    answers: Arc<EmbedAnswers>,
    number: u32,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        drop(self.answers.take(self.number));
    }
}

impl Embedder for JsEmbedder {
    fn embed(&self, request: EmbedRequest) -> EmbedFuture {
        let (number, answer) = self.answers.expect();
        let pending = PendingRequest { answers: Arc::clone(&self.answers), number };
        if let Some(hub) = self.hub.upgrade() {
            let EmbedRequest { texts, is_query } = &request;
            let question = Question { embed: self.keys, number, texts, is_query: *is_query };
            hub.reply(&serde_json::to_string(&question).unwrap_or_default());
        }
        Box::pin(async move {
            let _pending = pending;
            answer.await.unwrap_or_else(|_| {
                Err(EmbedFailure::passing("its JavaScript environment has ended"))
            })
        })
    }
}
