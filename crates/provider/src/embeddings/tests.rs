//! The requests and answers of each API. They must never call a server.

use serde_json::{Value, json};

use super::{BEDROCK, EmbedAnswer, EmbedApi, EmbedInput, GEMINI, OLLAMA, OPENAI, VERTEX};

fn sent(api: &EmbedApi, model: &str, is_query: bool, dimensions: Option<u32>) -> Value {
    let input = EmbedInput { texts: vec!["a".to_owned(), "b".to_owned()], is_query, dimensions };
    serde_json::from_slice(&(api.body)(model, &input)).unwrap()
}

fn answered(api: &EmbedApi, body: &Value) -> Option<EmbedAnswer> {
    (api.answer)(&serde_json::to_vec(body).unwrap())
}

#[test]
fn openai_sends_all_texts_and_answers_by_index() {
    let body = json!({ "model": "m", "input": ["a", "b"] });
    assert_eq!(sent(&OPENAI, "m", false, None), body);
    let body = json!({ "model": "m", "input": ["a", "b"], "dimensions": 64 });
    assert_eq!(sent(&OPENAI, "m", true, Some(64)), body);
    let answer = answered(
        &OPENAI,
        &json!({
            "data": [{ "index": 1, "embedding": [2] }, { "index": 0, "embedding": [1.5] }],
            "usage": { "prompt_tokens": 4, "total_tokens": 4 },
        }),
    );
    let vectors = vec![vec![1.5], vec![2.0]];
    assert_eq!(answer, Some(EmbedAnswer { vectors, tokens: Some(4) }));
    assert_eq!(answered(&OPENAI, &json!({ "error": "no" })), None);
}

#[test]
fn ollama_sends_all_texts_and_answers_in_their_order() {
    let body = json!({ "model": "m", "input": ["a", "b"], "truncate": true, "dimensions": 64 });
    assert_eq!(sent(&OLLAMA, "m", true, Some(64)), body);
    let body = json!({ "model": "m", "embeddings": [[1.5], [2]], "prompt_eval_count": 4 });
    let vectors = vec![vec![1.5], vec![2.0]];
    assert_eq!(answered(&OLLAMA, &body), Some(EmbedAnswer { vectors, tokens: Some(4) }));
    assert_eq!(answered(&OLLAMA, &json!({ "error": "no" })), None);
}

#[test]
fn gemini_has_a_request_for_each_text_with_its_task() {
    let body = sent(&GEMINI, "gemini-embedding-001", true, Some(768));
    assert_eq!(
        body["requests"][1],
        json!({
            "model": "models/gemini-embedding-001",
            "content": { "parts": [{ "text": "b" }] },
            "taskType": "RETRIEVAL_QUERY",
            "outputDimensionality": 768,
        })
    );
    let answer = answered(&GEMINI, &json!({ "embeddings": [{ "values": [1, 2] }] }));
    assert_eq!(answer, Some(EmbedAnswer { vectors: vec![vec![1.0, 2.0]], tokens: None }));
}

#[test]
fn vertex_predicts_and_counts_tokens() {
    let body = sent(&VERTEX, "text-embedding-005", false, Some(256));
    assert_eq!(
        body,
        json!({
            "instances": [
                { "content": "a", "task_type": "RETRIEVAL_DOCUMENT" },
                { "content": "b", "task_type": "RETRIEVAL_DOCUMENT" },
            ],
            "parameters": { "outputDimensionality": 256 },
        })
    );
    let one = json!({ "embeddings": { "values": [1], "statistics": { "token_count": 3.0 } } });
    let answer = answered(&VERTEX, &json!({ "predictions": [one, one] }));
    let vectors = vec![vec![1.0], vec![1.0]];
    assert_eq!(answer, Some(EmbedAnswer { vectors, tokens: Some(6) }));
}

#[test]
fn bedrock_knows_cohere_and_titan() {
    assert_eq!(
        (BEDROCK.path)("amazon.titan-embed-text-v2:0"),
        "/model/amazon.titan-embed-text-v2%3A0/invoke"
    );
    assert_eq!((BEDROCK.most)("amazon.titan-embed-text-v2:0"), 1);
    let body = sent(&BEDROCK, "amazon.titan-embed-text-v2:0", false, Some(256));
    assert_eq!(body, json!({ "inputText": "a", "dimensions": 256 }));
    let body = sent(&BEDROCK, "cohere.embed-english-v3", true, None);
    let wanted = json!({ "texts": ["a", "b"], "input_type": "search_query", "truncate": "END" });
    assert_eq!(body, wanted);
    let titan = answered(&BEDROCK, &json!({ "embedding": [1], "inputTextTokenCount": 2 }));
    assert_eq!(titan, Some(EmbedAnswer { vectors: vec![vec![1.0]], tokens: Some(2) }));
    for embeddings in [json!([[1]]), json!({ "float": [[1]] })] {
        let cohere = answered(&BEDROCK, &json!({ "embeddings": embeddings }));
        assert_eq!(cohere, Some(EmbedAnswer { vectors: vec![vec![1.0]], tokens: None }));
    }
}
