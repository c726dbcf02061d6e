//! `POST /api/embed` of Ollama's own API, beside the compatible one that its base URL names. Pure.

use serde::{Deserialize, Serialize};

use super::{EmbedAnswer, EmbedApi, EmbedInput};

pub(crate) const OLLAMA: EmbedApi =
    EmbedApi { most: |_| 512, path: |_| "/../api/embed".to_owned(), body, answer };

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: &'a [String],
    /// A text that is longer than the model's context is cut, and not refused.
    truncate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
}

#[derive(Deserialize)]
struct Answer {
    embeddings: Vec<Vec<f32>>,
    prompt_eval_count: Option<u64>,
}

fn body(model: &str, input: &EmbedInput) -> Vec<u8> {
    let EmbedInput { texts, dimensions, .. } = input;
    let body = Body { model, input: texts, truncate: true, dimensions: *dimensions };
    serde_json::to_vec(&body).unwrap_or_default()
}

fn answer(body: &[u8]) -> Option<EmbedAnswer> {
    let Answer { embeddings, prompt_eval_count } = serde_json::from_slice(body).ok()?;
    Some(EmbedAnswer { vectors: embeddings, tokens: prompt_eval_count })
}
