//! The memory for JavaScript: one method by its name and the JSON of its arguments, and the answers of an embedder function.
//!
//! It must never decide what is found.

use std::sync::Arc;

use napi::Result;
use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::node::engine::NativeEngine;
use crate::node::errors::js_error;
use crate::node::reply::{Answer, json};
use crate::retrieval::{EmbedFailure, Embedded, FactImport, Memory, OwnedMemory, Superseded};
use base::error::{EngineError, ErrorCode};
use model::{
    EmbeddingCost, FactFilter, ForgetOptions, InputError, MemoryHits, MemorySearchOptions, NewFact,
    from_json,
};
use serde_json::json as object;

/// The default budget of a context's lines.
const CONTEXT_TOKENS: usize = 1_000;

#[derive(Deserialize)]
struct SearchArgs {
    query: String,
    #[serde(default)]
    options: MemorySearchOptions,
}

#[derive(Deserialize)]
struct ContextArgs {
    query: String,
    #[serde(default)]
    options: MemorySearchOptions,
    #[serde(default)]
    tokens: Option<usize>,
}

#[derive(Deserialize)]
struct FactArgs {
    fact: NewFact,
    #[serde(default)]
    supersedes: Option<Superseded>,
}

#[derive(Deserialize)]
struct FilterArgs {
    #[serde(default)]
    filter: FactFilter,
}

#[derive(Deserialize)]
struct ForgetArgs {
    options: ForgetOptions,
}

#[derive(Deserialize)]
struct SessionArgs {
    session: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReindexOptions {
    #[serde(default)]
    vectors: bool,
}

#[derive(Deserialize)]
struct ReindexArgs {
    #[serde(default)]
    options: ReindexOptions,
}

/// The arguments of a call. A wrong one is named by its path below `args`.
fn read<T: DeserializeOwned>(args: &str) -> std::result::Result<T, EngineError> {
    from_json(args).map_err(|error: InputError| {
        let path = error.path.split_once('.').map_or(error.path.as_str(), |(_, field)| field);
        EngineError::option(InputError { path: path.to_owned(), ..error })
    })
}

/// What the answer to one call is.
async fn call(memory: Arc<Memory>, method: String, args: String) -> Answer {
    match method.as_str() {
        "search" => {
            let SearchArgs { query, options } = read(&args)?;
            json(&memory.search(&query, options).await?)
        }
        "context" => {
            let ContextArgs { query, options, tokens } = read(&args)?;
            let tokens = tokens.unwrap_or(CONTEXT_TOKENS);
            let (text, found) = memory.context(&query, options, tokens).await?;
            let MemoryHits { hits, model, problem } = found;
            json(&object!({ "text": text, "hits": hits, "model": model, "problem": problem }))
        }
        "storeFact" => {
            let FactArgs { fact, supersedes } = read(&args)?;
            json(&memory.store_fact(fact, supersedes).await?)
        }
        "facts" => {
            let FilterArgs { filter } = read(&args)?;
            json(&memory.facts(filter).await?)
        }
        "forget" => {
            let ForgetArgs { options } = read(&args)?;
            json(&memory.forget(options).await?)
        }
        "import" => json(&memory.import(read::<FactImport>(&args)?).await?),
        "summary" => {
            let SessionArgs { session } = read(&args)?;
            json(&memory.summary(session).await?)
        }
        "stats" => json(&memory.stats().await?),
        "reindex" => {
            let ReindexArgs { options } = read(&args)?;
            json(&memory.reindex(options.vectors).await?)
        }
        _ => {
            let message = format!("the memory has no method `{method}`");
            Err(EngineError::new(ErrorCode::Internal, message))
        }
    }
}

#[napi]
impl NativeEngine {
    /// Calls a method of the memory with the JSON of its arguments; answers request `id`.
    #[napi(catch_unwind)]
    pub fn memory(&self, id: u32, method: String, args: String) -> Result<()> {
        let Some(memory) = self.memory.as_ref().map(OwnedMemory::get) else {
            let message = "the engine has no memory; pass `memory: true`";
            return Err(js_error(&EngineError::new(ErrorCode::NoMemory, message)));
        };
        self.answer(id, call(memory, method, args));
        Ok(())
    }

    /// Answers request `number` for vectors: their numbers one after the other with the length of each, or why there are none.
    #[napi(catch_unwind)]
    pub fn answer_embedding(
        &self,
        number: u32,
        vectors: Option<Uint8Array>,
        lengths: Vec<u32>,
        error: Option<String>,
    ) {
        let Some(waiting) = self.embeddings.take(number) else { return };
        let answer = match (vectors, error) {
            (Some(bytes), None) => Ok(embedded(&bytes, &lengths)),
            (_, error) => {
                let message = error.unwrap_or_else(|| "the embedder returned nothing".to_owned());
                Err(EmbedFailure::passing(message))
            }
        };
        // It may have ended meanwhile; then the answer is dropped.
        let _ = waiting.send(answer);
    }
}

/// The vectors of their bytes.
fn embedded(bytes: &[u8], lengths: &[u32]) -> Embedded {
    let mut numbers =
        bytes.chunks_exact(4).filter_map(|it| it.try_into().ok().map(f32::from_le_bytes));
    let vectors = lengths.iter().map(|length| {
        let length = usize::try_from(*length).unwrap_or_default();
        numbers.by_ref().take(length).collect()
    });
    let vectors = vectors.collect();
    // What a function of the host costs is not known.
    let cost = EmbeddingCost { tokens: 0, nanos: Some(0) };
    Embedded { vectors, cost }
}
