//! The task that embeds chunks, and the vector of a query. A failing embedder is called again after a growing wait, and words are
//! searched meanwhile.
//!
//! A text that the embedder refuses, or whose vector cannot be used, is skipped and counted. It must never store a vector of another
//! model.

use std::sync::Arc;
use std::time::Duration;

use super::embedder::{EmbedFailure, EmbedRequest, Embedded, Embedder};
use super::indexer::backoff;
use super::options::EmbedderOptions;
use super::service::{KnownModel, Memory};
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
                    Some(asked.unwrap_or_default().max(backoff(failures)))
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
            return Ok(false);
        }
        let (outcomes, cost) = embed(embedder, options, model, &chunks).await?;
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

    /// The vector of a query, with the number of its model. `Ok(None)` without an embedder.
    ///
    /// # Errors
    /// Why there is none: then words are searched alone.
    pub(super) async fn query_vector(
        &self,
        text: &str,
    ) -> Result<Option<(i64, Vec<f32>)>, EmbedFailure> {
        let Some((embedder, options)) = &self.parts.embedder else { return Ok(None) };
        let embedding = async {
            let model = self.known_model(embedder, options).await?;
            let embedded = call(embedder, options, &[text.to_owned()], true).await?;
            let vector = embedded.vectors.into_iter().next().unwrap_or_default();
            let vector = unit(vector, model.dimensions)
                .map_err(|problem| EmbedFailure::passing(problem.to_string()))?;
            Ok(Some((model.n, vector)))
        };
        match tokio::time::timeout(QUERY_TIME, embedding).await {
            Ok(done) => done,
            Err(_elapsed) => Err(EmbedFailure::passing("the embedder did not answer in 3 s")),
        }
    }
}

fn of_store(error: model::StorageError) -> EmbedFailure {
    let wait = (error.kind == StorageErrorKind::Closed).then_some(60_000);
    EmbedFailure { retry_after_ms: wait, ..EmbedFailure::passing(error.message) }
}

/// What became of each chunk. Where texts are the reason of a failure, each is embedded alone, and those that fail are skipped.
async fn embed(
    embedder: &Arc<dyn Embedder>,
    options: &EmbedderOptions,
    model: KnownModel,
    chunks: &[UnembeddedChunk],
) -> Result<(Vec<EmbeddedChunk>, EmbeddingCost), EmbedFailure> {
    let texts: Vec<String> = chunks.iter().map(|chunk| chunk.text.clone()).collect();
    let checked = |vector: Vec<f32>| match unit(vector, model.dimensions) {
        Ok(vector) => EmbeddedChunk::Vector(vector),
        Err(problem) => EmbeddedChunk::Skipped(problem.to_string()),
    };
    match call(embedder, options, &texts, false).await {
        Ok(embedded) => Ok((embedded.vectors.into_iter().map(checked).collect(), embedded.cost)),
        Err(failure) if !failure.is_about_texts => Err(failure),
        Err(failure) if texts.len() == 1 => {
            let cost = EmbeddingCost { nanos: Some(0), ..EmbeddingCost::default() };
            Ok((vec![EmbeddedChunk::Skipped(failure.message)], cost))
        }
        Err(_) => {
            let mut outcomes = Vec::new();
            let mut cost = EmbeddingCost { nanos: Some(0), ..EmbeddingCost::default() };
            for text in texts {
                match call(embedder, options, &[text], false).await {
                    Ok(embedded) => {
                        outcomes.extend(embedded.vectors.into_iter().map(checked));
                        cost.tokens += embedded.cost.tokens;
                        cost.nanos =
                            cost.nanos.zip(embedded.cost.nanos).map(|(one, other)| one + other);
                    }
                    Err(failure) if failure.is_about_texts => {
                        outcomes.push(EmbeddedChunk::Skipped(failure.message));
                    }
                    Err(failure) => return Err(failure),
                }
            }
            Ok((outcomes, cost))
        }
    }
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
