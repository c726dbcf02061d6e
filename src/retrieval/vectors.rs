//! The task that embeds chunks, and the vector of a query. A failing embedder is called again after a growing wait, and words are
//! searched meanwhile.
//!
//! A text that the embedder refuses, or whose vector cannot be used, is skipped and counted. It must never store a vector of another
//! model.

use std::sync::Arc;
use std::time::Duration;

use super::embedder::{EmbedFailure, EmbedFailureOf, EmbedRequest, Embedded, Embedder};
use super::indexer::{backoff, wait_for_service};
use super::options::EmbedderOptions;
use super::service::{FailedQueries, KnownModel, Memory};
use memory::vectors::vector::unit;
use model::{EmbeddedChunk, EmbeddingCost, StorageErrorKind, UnembeddedChunk};

/// The text that shows the dimensions of a model.
const PROBE: &str = "dimensions";
/// The longest wait for the vector of a query.
const QUERY_TIME: Duration = Duration::from_secs(3);

impl Memory {
    /// Embeds chunks as they are written, until the engine closes.
    pub(super) async fn embed_chunks(self: Arc<Self>) {
        let mut failures = 0;
        loop {
            let done = tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                done = self.embed_batch() => done,
            };
            self.progress().embedding = done.as_ref().err().map(|error| error.message.clone());
            let wait = match done {
                Ok(true) => {
                    failures = 0;
                    continue;
                }
                Ok(false) => {
                    failures = 0;
                    None
                }
                Err(failure) => {
                    failures += 1;
                    let asked = failure.retry_after_ms.map(Duration::from_millis);
                    Some(wait_for_service(failures, asked.unwrap_or_default()))
                }
            };
            match wait {
                None => tokio::select! {
                    biased;
                    () = self.closing.cancelled() => return,
                    () = self.chunk_written.notified() => {}
                },
                Some(wait) => tokio::select! {
                    biased;
                    () = self.closing.cancelled() => return,
                    () = tokio::time::sleep(wait) => {}
                },
            }
        }
    }

    /// Embeds the next chunks. Returns whether there may be more.
    async fn embed_batch(&self) -> Result<bool, EmbedFailure> {
        let Some((embedder, options)) = &self.parts.embedder else { return Ok(false) };
        let model = self.known_model(embedder, options).await?;
        let store = &self.parts.store;
        let chunks = store.unembedded(model.n, options.batch).await.map_err(of_store)?;
        if chunks.is_empty() {
            // Every chunk has its vector: these are searched while the index grows.
            return store.index_vectors(model.n).await.map_err(of_store);
        }
        let began = self.parts.clock.instant();
        let (outcomes, cost) = embed(embedder, options, model, &chunks).await?;
        if began.elapsed() < QUERY_TIME {
            // It is fast enough for queries.
            self.progress().queries = FailedQueries::default();
        }
        let outcomes = chunks.iter().map(|chunk| chunk.n).zip(outcomes).collect();
        store.embedded(model.n, outcomes, cost).await.map_err(of_store)?;
        Ok(true)
    }

    /// The model of the embedder: its dimensions are those of the options, or of a first vector.
    async fn known_model(
        &self,
        embedder: &Arc<dyn Embedder>,
        options: &EmbedderOptions,
    ) -> Result<KnownModel, EmbedFailure> {
        let known = self.progress().model;
        if let Some(known) = known {
            return Ok(known);
        }
        let dimensions = match options.dimensions {
            Some(dimensions) => dimensions,
            None => {
                let embedded = call(embedder, options, &[PROBE.to_owned()], false).await?;
                let length = embedded.vectors.first().map_or(0, Vec::len);
                u32::try_from(length)
                    .ok()
                    .filter(|length| *length > 0)
                    .ok_or_else(|| EmbedFailure::passing("the embedder returned an empty vector"))?
            }
        };
        let n =
            self.parts.store.model(options.model.clone(), dimensions).await.map_err(of_store)?;
        let known = KnownModel { n, dimensions: usize::try_from(dimensions).unwrap_or_default() };
        self.progress().model = Some(known);
        Ok(known)
    }

    /// The vector of a query, with the number of its model. `Ok(None)` without an embedder. After a failure the embedder is not asked for some
    /// time: a silent one must not hold up each search.
    ///
    /// # Errors
    /// Why there is none: then words are searched alone.
    pub(super) async fn query_vector(
        &self,
        text: &str,
    ) -> Result<Option<(i64, Vec<f32>)>, EmbedFailure> {
        let Some((embedder, options)) = &self.parts.embedder else { return Ok(None) };
        if let Some(problem) = self.paused() {
            return Err(EmbedFailure::passing(problem));
        }
        let embedding = async {
            let model = self.known_model(embedder, options).await?;
            let embedded = call(embedder, options, &[text.to_owned()], true).await?;
            let vector = embedded.vectors.into_iter().next().unwrap_or_default();
            let vector = unit(vector, model.dimensions)
                .map_err(|problem| EmbedFailure::passing(problem.to_string()))?;
            Ok(Some((model.n, vector)))
        };
        let done = match tokio::time::timeout(QUERY_TIME, embedding).await {
            Ok(done) => done,
            Err(_elapsed) => Err(EmbedFailure::passing("the embedder did not answer in 3 s")),
        };
        let now = self.parts.clock.instant();
        let queries = &mut self.progress().queries;
        match &done {
            Ok(_) => *queries = FailedQueries::default(),
            Err(failure) => {
                queries.count = queries.count.saturating_add(1);
                queries.until = Some(now + backoff(queries.count));
                queries.problem.clone_from(&failure.message);
            }
        }
        done
    }

    /// Why the embedder is not asked now.
    fn paused(&self) -> Option<String> {
        let now = self.parts.clock.instant();
        let queries = &mut self.progress().queries;
        let until = queries.until?;
        if now < until {
            let problem = &queries.problem;
            return Some(format!("{problem}; it is asked again after a pause"));
        }
        // One query finds out; others need not wait for it.
        queries.until = Some(now + QUERY_TIME);
        None
    }
}

fn of_store(error: model::StorageError) -> EmbedFailure {
    let wait = (error.kind == StorageErrorKind::Closed).then_some(60_000);
    EmbedFailure { retry_after_ms: wait, ..EmbedFailure::passing(error.message) }
}

/// What became of each chunk. Where the texts seem to be the reason of a failure, or the size of the answer, they are embedded by halves; a text
/// that fails alone is skipped. A service that refuses every text is not skipped over: it is called again later.
async fn embed(
    embedder: &Arc<dyn Embedder>,
    options: &EmbedderOptions,
    model: KnownModel,
    chunks: &[UnembeddedChunk],
) -> Result<(Vec<EmbeddedChunk>, EmbeddingCost), EmbedFailure> {
    let all: Vec<String> = chunks.iter().map(|chunk| chunk.text.clone()).collect();
    let checked = |vector: Vec<f32>| match unit(vector, model.dimensions) {
        Ok(vector) => EmbeddedChunk::Vector(vector),
        Err(problem) => EmbeddedChunk::Skipped(problem.to_string()),
    };
    let mut outcomes = Vec::with_capacity(all.len());
    let mut cost = EmbeddingCost { nanos: Some(0), ..EmbeddingCost::default() };
    let mut add = |more: EmbeddingCost| {
        cost.tokens += more.tokens;
        cost.nanos = cost.nanos.zip(more.nanos).map(|(one, other)| one + other);
    };
    let mut works = false;
    let mut left = vec![all.as_slice()];
    while let Some(texts) = left.pop() {
        let failure = match call(embedder, options, texts, false).await {
            Ok(embedded) => {
                works = true;
                outcomes.extend(embedded.vectors.into_iter().map(checked));
                add(embedded.cost);
                continue;
            }
            Err(failure) => failure,
        };
        match failure.of {
            EmbedFailureOf::Service => return Err(failure),
            EmbedFailureOf::Texts if !works => {
                let probe = call(embedder, options, &[PROBE.to_owned()], false).await;
                add(probe.map_err(|_| failure.clone())?.cost);
                works = true;
            }
            EmbedFailureOf::Texts | EmbedFailureOf::Size => {}
        }
        if texts.len() > 1 {
            let (first, second) = texts.split_at(texts.len() / 2);
            left.extend([second, first]);
        } else {
            outcomes.push(EmbeddedChunk::Skipped(failure.message));
        }
    }
    Ok((outcomes, cost))
}

/// Calls the embedder, within its time. The answer has a vector for each text.
async fn call(
    embedder: &Arc<dyn Embedder>,
    options: &EmbedderOptions,
    texts: &[String],
    is_query: bool,
) -> Result<Embedded, EmbedFailure> {
    let request = EmbedRequest { texts: texts.to_vec(), is_query };
    let time = Duration::from_millis(options.timeout_ms);
    let embedded = match tokio::time::timeout(time, embedder.embed(request)).await {
        Ok(done) => done?,
        Err(_elapsed) => {
            let limit = options.timeout_ms;
            let message = format!("the embedder did not answer in {limit} ms");
            return Err(EmbedFailure::passing(message));
        }
    };
    if embedded.vectors.len() == texts.len() {
        return Ok(embedded);
    }
    let (found, wanted) = (embedded.vectors.len(), texts.len());
    Err(EmbedFailure::passing(format!("the embedder returned {found} vectors for {wanted} texts")))
}
