//! `POST /embeddings` of OpenAI and of the servers that speak like it: llama.cpp, vLLM, Mistral, Voyage. Pure.

use serde::{Deserialize, Serialize};

use super::{EmbedAnswer, EmbedApi, EmbedInput};

pub(crate) const OPENAI: EmbedApi =
    EmbedApi { most: |_| 2_048, path: |_| "/embeddings".to_owned(), body, answer };

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

fn body(model: &str, input: &EmbedInput) -> Vec<u8> {
    let body = Body { model, input: &input.texts, dimensions: input.dimensions };
    serde_json::to_vec(&body).unwrap_or_default()
}

fn answer(body: &[u8]) -> Option<EmbedAnswer> {
    let Answer { data, usage } = serde_json::from_slice(body).ok()?;
    let mut items: Vec<(usize, Vec<f32>)> = data
        .into_iter()
        .enumerate()
        .map(|(position, item)| (item.index.unwrap_or(position), item.embedding))
        .collect();
    items.sort_by_key(|(index, _)| *index);
    Some(EmbedAnswer {
        vectors: items.into_iter().map(|(_, vector)| vector).collect(),
        tokens: usage.and_then(|usage| usage.prompt_tokens.or(usage.total_tokens)),
    })
}
