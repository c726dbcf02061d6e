//! `batchEmbedContents` of the Gemini API, and `predict` of Vertex. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{EmbedAnswer, EmbedApi, EmbedInput};

pub(crate) const GEMINI: EmbedApi = EmbedApi {
    most: |_| 100,
    path: |_| "batchEmbedContents".to_owned(),
    body: gemini_body,
    answer: gemini_answer,
};

pub(crate) const VERTEX: EmbedApi = EmbedApi {
    // Its newest models take one text.
    most: |model| if model.contains("gemini-embedding") { 1 } else { 100 },
    path: |_| "predict".to_owned(),
    body: vertex_body,
    answer: vertex_answer,
};

fn task(input: &EmbedInput) -> &'static str {
    if input.is_query { "RETRIEVAL_QUERY" } else { "RETRIEVAL_DOCUMENT" }
}

fn gemini_body(model: &str, input: &EmbedInput) -> Vec<u8> {
    let name = model.strip_prefix("models/").unwrap_or(model);
    let requests: Vec<Value> = input
        .texts
        .iter()
        .map(|text| {
            let mut request = json!({
                "model": format!("models/{name}"),
                "content": { "parts": [{ "text": text }] },
                "taskType": task(input),
            });
            if let (Some(dimensions), Some(fields)) = (input.dimensions, request.as_object_mut()) {
                fields.insert("outputDimensionality".to_owned(), dimensions.into());
            }
            request
        })
        .collect();
    serde_json::to_vec(&json!({ "requests": requests })).unwrap_or_default()
}

#[derive(Deserialize)]
struct Values {
    values: Vec<f32>,
}

fn gemini_answer(body: &[u8]) -> Option<EmbedAnswer> {
    #[derive(Deserialize)]
    struct Answer {
        embeddings: Vec<Values>,
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    let vectors = answer.embeddings.into_iter().map(|it| it.values).collect();
    Some(EmbedAnswer { vectors, tokens: None })
}

fn vertex_body(_: &str, input: &EmbedInput) -> Vec<u8> {
    let texts = input.texts.iter();
    let instances: Vec<Value> =
        texts.map(|text| json!({ "content": text, "task_type": task(input) })).collect();
    let mut body = json!({ "instances": instances });
    if let (Some(dimensions), Some(fields)) = (input.dimensions, body.as_object_mut()) {
        fields.insert("parameters".to_owned(), json!({ "outputDimensionality": dimensions }));
    }
    serde_json::to_vec(&body).unwrap_or_default()
}

fn vertex_answer(body: &[u8]) -> Option<EmbedAnswer> {
    #[derive(Deserialize)]
    struct Answer {
        predictions: Vec<Prediction>,
    }
    #[derive(Deserialize)]
    struct Prediction {
        embeddings: Embeddings,
    }
    #[derive(Deserialize)]
    struct Embeddings {
        values: Vec<f32>,
        statistics: Option<Statistics>,
    }
    #[derive(Deserialize)]
    struct Statistics {
        token_count: Option<f64>,
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    let mut tokens = Some(0);
    let mut vectors = Vec::new();
    for Prediction { embeddings } in answer.predictions {
        let counted = embeddings.statistics.and_then(|it| it.token_count);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count that the server writes as a fraction"
        )]
        let counted = counted.map(|count| count.max(0.0) as u64);
        tokens = tokens.zip(counted).map(|(sum, count)| sum + count);
        vectors.push(embeddings.values);
    }
    Some(EmbedAnswer { vectors, tokens })
}
