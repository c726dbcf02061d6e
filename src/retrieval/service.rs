//! The memory of one engine: its parts, its tasks and its end. It must never hold what is remembered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::embedder::Embedder;
use super::extraction_model::ExtractionModel;
use super::options::{EmbedderOptions, MemoryOptions};
use crate::engine::{Engine, Tasks};
use base::clock::Clock;
use base::error::EngineError;
use model::{
    MemoryExtraction, MemoryReindex, MemoryScope, MemoryStats, MemoryStore, VectorSearch, Vectors,
};

/// The parts of a memory.
pub(crate) struct MemoryParts {
    pub(crate) store: Arc<dyn MemoryStore>,
    /// What embeds; `None`: only words are searched.
    pub(crate) embedder: Option<(Arc<dyn Embedder>, EmbedderOptions)>,
    /// What extracts facts.
    pub(crate) extractor: Option<ExtractionModel>,
    /// Its keys are in no text that is stored.
    pub(crate) engine: Arc<Engine>,
    pub(crate) options: MemoryOptions,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
}

/// The model of the embedder, once its dimensions are known.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownModel {
    pub(super) n: i64,
    pub(super) dimensions: usize,
}

/// What the tasks know and searches read.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) model: Option<KnownModel>,
    /// The last failure of each task.
    pub(super) indexing: Option<String>,
    pub(super) embedding: Option<String>,
    pub(super) extraction: Option<String>,
    pub(super) queries: FailedQueries,
}

/// The queries in a row whose vectors failed.
#[derive(Default)]
pub(super) struct FailedQueries {
    pub(super) count: u32,
    /// Until then words are searched alone.
    pub(super) until: Option<tokio::time::Instant>,
    /// The last failure.
    pub(super) problem: String,
}

/// A memory that ends with its owner.
pub(crate) struct OwnedMemory(Arc<Memory>);

impl OwnedMemory {
    /// A handle for one call.
    pub(crate) fn get(&self) -> Arc<Memory> {
        Arc::clone(&self.0)
    }
}

impl Drop for OwnedMemory {
    /// An engine that nobody closes must not index for ever.
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The memory of one engine.
pub(crate) struct Memory {
    pub(super) parts: MemoryParts,
    progress: Mutex<Progress>,
    /// A turn is to be indexed.
    pub(super) turn_ended: Arc<Notify>,
    /// A chunk is to be embedded.
    pub(super) chunk_written: Notify,
    /// The facts of a turn are to be extracted.
    pub(super) turn_indexed: Notify,
    pub(super) closing: CancellationToken,
}

impl Memory {
    /// A memory that has begun to index what was left.
    pub(crate) fn start(parts: MemoryParts) -> OwnedMemory {
        let memory = Arc::new(Self {
            parts,
            progress: Mutex::default(),
            turn_ended: Arc::default(),
            chunk_written: Notify::new(),
            turn_indexed: Notify::new(),
            closing: CancellationToken::new(),
        });
        let woken = Arc::clone(&memory.turn_ended);
        memory.parts.store.search_by(memory.parts.options.vectors);
        memory.parts.store.remember_turns(Arc::new(move || woken.notify_one()));
        let indexer = Arc::clone(&memory);
        memory.parts.tasks.spawn(async move { indexer.index_turns().await });
        if memory.parts.embedder.is_some() {
            let embedding = Arc::clone(&memory);
            memory.parts.tasks.spawn(async move { embedding.embed_chunks().await });
        }
        if memory.parts.extractor.is_some() {
            let extracting = Arc::clone(&memory);
            memory.parts.tasks.spawn(async move { extracting.extract_facts().await });
        }
        OwnedMemory(memory)
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the tasks. What is left is indexed when the ledger is opened again.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// The scopes that a session sees.
    pub(super) async fn visible_to(&self, label: &str) -> Result<Vec<MemoryScope>, EngineError> {
        let identity = self.parts.store.identity_of(label.to_owned()).await?;
        Ok(self.parts.options.scopes.visible_to(&identity))
    }

    /// What the memory has, and what is left to do.
    pub(crate) async fn stats(&self) -> Result<MemoryStats, EngineError> {
        let model = self.progress().model.map(|model| model.n);
        let counts = self.parts.store.counts(model).await?;
        let (problem, extraction_problem) = {
            let progress = self.progress();
            let problem = progress.indexing.clone().or_else(|| progress.embedding.clone());
            (problem, progress.extraction.clone())
        };
        let has_embedder = self.parts.embedder.is_some();
        #[expect(clippy::cast_precision_loss, reason = "a sum of money")]
        let dollars = |nanos: u64| nanos as f64 / 1e9;
        let mut totals = counts.totals;
        if self.parts.options.vectors == VectorSearch::Pgvector {
            for model in totals.models.iter_mut().filter(|it| it.search == VectorSearch::Scan) {
                let none = || "the ledger is a file, which has no pgvector".to_owned();
                model.search_problem.get_or_insert_with(none);
            }
        }
        // As long as the embedder has not answered, nothing is embedded.
        if model.is_none() && has_embedder {
            totals.pending_vectors = totals.chunks;
        }
        let extraction = self.parts.extractor.as_ref().map(|_| MemoryExtraction {
            pending: counts.pending_extractions,
            skipped: counts.skipped_extractions,
            skipped_problem: counts.extraction_problem,
            tokens: counts.extraction_cost.tokens,
            cost: counts.extraction_cost.nanos.map(dollars),
            problem: extraction_problem,
        });
        Ok(MemoryStats {
            totals,
            embedded_tokens: counts.cost.tokens,
            cost: counts.cost.nanos.map(dollars),
            extraction,
            problem,
        })
    }

    /// Indexes the turns that are not, such as those from before the engine had a memory, and tries again what was given up. With `vectors` all
    /// vectors are made anew; without it those of former models are deleted, once each chunk has been embedded with this one.
    pub(crate) async fn reindex(&self, vectors: bool) -> Result<MemoryReindex, EngineError> {
        let model = self.progress().model.map(|model| model.n);
        // Without an embedder nothing could make them anew.
        let anew = vectors && self.parts.embedder.is_some();
        let vectors = if anew { Vectors::Anew } else { Vectors::Stay };
        let again = self.parts.store.reindex(model, vectors).await?;
        self.turn_ended.notify_one();
        self.chunk_written.notify_one();
        self.turn_indexed.notify_one();
        Ok(again)
    }

    /// The summary of a session's last compaction.
    pub(crate) async fn summary(&self, session: String) -> Result<Option<String>, EngineError> {
        Ok(self.parts.store.summary(session).await?)
    }
}
