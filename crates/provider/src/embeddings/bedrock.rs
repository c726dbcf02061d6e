//! `InvokeModel` of Bedrock, for the embedding models of Cohere and of Amazon. Pure.

use serde::Deserialize;
use serde_json::json;

use super::{EmbedAnswer, EmbedApi, EmbedInput};
use crate::paths::segment;

pub(crate) const BEDROCK: EmbedApi = EmbedApi {
    most: |model| if is_cohere(model) { 96 } else { 1 },
    path: |model| format!("/model/{}/invoke", segment(model)),
    body,
    answer,
};

fn is_cohere(model: &str) -> bool {
    model.contains("cohere.")
}

fn body(model: &str, input: &EmbedInput) -> Vec<u8> {
    let body = if is_cohere(model) {
        let kind = if input.is_query { "search_query" } else { "search_document" };
        json!({ "texts": input.texts, "input_type": kind, "truncate": "END" })
    } else {
        let text = input.texts.first().map_or("", String::as_str);
        match input.dimensions {
            Some(dimensions) => json!({ "inputText": text, "dimensions": dimensions }),
            None => json!({ "inputText": text }),
        }
    };
    serde_json::to_vec(&body).unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Titan {
        embedding: Vec<f32>,
        #[serde(rename = "inputTextTokenCount")]
        tokens: Option<u64>,
    },
    Cohere {
        embeddings: Cohere,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Cohere {
    Plain(Vec<Vec<f32>>),
    Typed { float: Vec<Vec<f32>> },
}

fn answer(body: &[u8]) -> Option<EmbedAnswer> {
    Some(match serde_json::from_slice(body).ok()? {
        Answer::Titan { embedding, tokens } => EmbedAnswer { vectors: vec![embedding], tokens },
        Answer::Cohere {
            embeddings: Cohere::Plain(vectors) | Cohere::Typed { float: vectors },
        } => EmbedAnswer { vectors, tokens: None },
    })
}
