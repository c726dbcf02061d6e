//! The memory of an engine, and the vectors that a function of the host returns: the texts are a record of the environment's queue, and the
//! vectors are returned by its number.
//!
//! It must never check a vector: the memory does.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Serialize;

use super::answers::Answers;
use crate::engine::{Engine, MemoryModelCall, Tasks};
use crate::node::hub::HubCore;
use crate::retrieval::{
    EmbedFailure, EmbedFuture, EmbedRequest, Embedded, Embedder, ExtractionModel, Memory,
    MemoryOptions, MemoryParts, OwnedMemory, ProviderEmbedder, Spending,
};
use base::clock::Clock;
use model::LedgerPorts;
use provider::RequestHost;

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

/// The memory of an engine with these options. `hook` inspects its requests to providers.
pub(in crate::node) fn start_memory(
    options: MemoryOptions,
    ledger: &LedgerPorts,
    (clock, tasks): (&Clock, &Tasks),
    engine: &Arc<Engine>,
    host: JsEmbedder,
    hook: Option<Arc<dyn RequestHost>>,
) -> OwnedMemory {
    let store = &ledger.memory;
    let spending =
        Spending { store: Arc::clone(store), clock: clock.clone(), tasks: tasks.clone() };
    let call = |(provider, model): (&String, &String), timeout_ms| MemoryModelCall {
        provider: provider.clone(),
        model: model.clone(),
        hook: hook.clone(),
        limit: Duration::from_millis(timeout_ms),
    };
    let embedder = options.embedder.as_ref().map(|embedder| match &embedder.provider {
        None => Arc::new(host) as Arc<dyn Embedder>,
        Some((provider, model)) => Arc::new(ProviderEmbedder {
            engine: Arc::clone(engine),
            to: call((provider, model), embedder.timeout_ms),
            dimensions: embedder.dimensions,
            spending: spending.clone(),
        }),
    });
    let extractor = options.extract.clone().map(|options| ExtractionModel {
        to: call((&options.provider, &options.model), options.timeout_ms),
        options,
        spending: spending.clone(),
    });
    Memory::start(MemoryParts {
        store: Arc::clone(store),
        embedder: embedder.zip(options.embedder.clone()),
        extractor,
        engine: Arc::clone(engine),
        options,
        clock: clock.clone(),
        tasks: tasks.clone(),
    })
}

/// The embedder function of an engine, if it has one.
pub(in crate::node) fn js_embedder(
    hub: &Arc<HubCore>,
    keys: u32,
    answers: &Arc<EmbedAnswers>,
) -> JsEmbedder {
    JsEmbedder { hub: Arc::downgrade(hub), keys, answers: Arc::clone(answers) }
}
