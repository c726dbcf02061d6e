//! One fixture per row of docs/rules/wire/openai-chat.md#compatible-servers, named after its row: the real bytes of a server,
//! and the decoded response.
//!
//! Streams go through the engine's own parser. It must never call a server.

use serde_json::{Value, json};

use super::{ChatDecoder, Decoded, unary};
use crate::classify::http_failure;
use crate::framing::sse::StreamReader;
use crate::{Api, Completion, Failure, Flow};

/// The answer of a server.
enum Answer {
    /// 200 and these bytes of an event stream.
    Stream(&'static str),
    /// 200 and JSON.
    Body(&'static str),
    /// An error status and a body.
    Error(u16, &'static str),
}

use Answer::{Body, Error, Stream};

fn streamed(bytes: &str) -> (Decoded, Result<Completion, Failure>) {
    let mut decoded = Decoded::default();
    let mut reader = StreamReader::new(Box::new(ChatDecoder::default()));
    match reader.feed(bytes.as_bytes(), &mut decoded) {
        Ok(Flow::More | Flow::End) => {
            let ended = reader.end(&mut decoded);
            (decoded, ended)
        }
        Err(failure) => (decoded, Err(failure)),
    }
}

/// The fields that are present: calls, texts, usage `[input, cached, output]`, and the stop or the failure.
fn summary(answer: &Answer) -> Value {
    let (decoded, ended) = match answer {
        Stream(bytes) => streamed(bytes),
        Body(body) => unary(body.as_bytes()),
        Error(status, body) => {
            let none = |_: &str| None;
            let failure = http_failure(Api::OpenaiChat, *status, &none, None, body.as_bytes(), 0);
            (Decoded::default(), Err(failure))
        }
    };
    let mut out = json!({});
    for (name, text) in
        [("text", decoded.joined("text")), ("reasoning", decoded.joined("thinking"))]
    {
        if !text.is_empty() {
            out[name] = text.into();
        }
    }
    if !decoded.calls().is_empty() {
        out["calls"] = json!(decoded.calls());
    }
    if let Some(usage) = decoded.usage {
        out["usage"] = json!([usage.input, usage.cached, usage.output]);
    }
    match ended {
        Ok(completion) => out["stop"] = format!("{:?}", completion.stop).into(),
        Err(failure) => out["failure"] = json!([failure.kind.as_str(), failure.code]),
    }
    out
}

#[test]
fn every_row_of_the_compatibility_table_is_decoded() {
    let rows: Vec<(&str, Answer, Value)> = vec![
        (
            "index missing (Ollama)",
            Stream(concat!(
                r#"data: {"choices":[{"delta":{"tool_calls":[{"id":"call_1","function":{"name":"a","arguments":"{\"x\":1}"}}]}}]}"#,
                "\n\n",
                r#"data: {"choices":[{"delta":{"tool_calls":[{"id":"call_2","function":{"name":"a","arguments":"{\"x\":2}"}}]},"finish_reason":"tool_calls"}]}"#,
                "\n\n",
                "data: [DONE]\n\n"
            )),
            json!({"calls": ["call_1 a {\"x\":1}", "call_2 a {\"x\":2}"], "stop": "ToolUse"}),
        ),
        (
            "index always 0 (Ollama)",
            Stream(concat!(
                r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"a","arguments":"{}"}}]}}]}"#,
                "\n\n",
                r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_2","function":{"name":"b","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
                "\n\n",
                "data: [DONE]\n\n"
            )),
            json!({"calls": ["call_1 a {}", "call_2 b {}"], "stop": "ToolUse"}),
        ),
        (
            "one call at several indexes (LocalAI)",
            Stream(concat!(
                r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"a","arguments":""}}]}}]}"#,
                "\n\n",
                r#"data: {"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c","function":{"arguments":"{\"x\":"}}]}}]}"#,
                "\n\n",
                r#"data: {"choices":[{"delta":{"tool_calls":[{"index":2,"id":"c","function":{"arguments":"1}"}}]},"finish_reason":"tool_calls"}]}"#,
                "\n\n",
                "data: [DONE]\n\n"
            )),
            json!({"calls": ["c a {\"x\":1}"], "stop": "ToolUse"}),
        ),
        (
            "id missing, name repeated, finish `stop` (LiteLLM)",
            Stream(concat!(
                r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"a","arguments":"{\"x\":"}}]}}]}"#,
                "\n\n",
                r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"a","arguments":"1}"}}]}}]}"#,
                "\n\n",
                r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
                "\n\n",
                "data: [DONE]\n\n"
            )),
            json!({"calls": [" a {\"x\":1}"], "stop": "ToolUse"}),
        ),
        (
            "arguments an object, and none at all (Ollama)",
            Stream(concat!(
                r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":{"x":1}}},{"index":1,"id":"2","function":{"name":"b","arguments":""}}]},"finish_reason":"tool_calls"}]}"#,
                "\n\n",
                "data: [DONE]\n\n"
            )),
            json!({"calls": ["1 a {\"x\":1}", "2 b "], "stop": "ToolUse"}),
        ),
        (
            "finish `stop` with a call (Gemini's compatible route)",
            Stream(concat!(
                r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"f-1","type":"function","function":{"name":"a","arguments":"{}"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}"#,
                "\n\n",
                "data: [DONE]\n\n"
            )),
            json!({"calls": ["f-1 a {}"], "usage": [5, 0, 2], "stop": "ToolUse"}),
        ),
        (
            "comments, and two finish chunks of which the second has the usage (OpenRouter)",
            Stream(concat!(
                ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n",
                r#"data: {"id":"gen-1","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}"#,
                "\n\n",
                r#"data: {"id":"gen-1","choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop","native_finish_reason":"stop"}]}"#,
                "\n\n",
                ": OPENROUTER PROCESSING\n\n",
                r#"data: {"id":"gen-1","choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop","native_finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}}"#,
                "\n\n",
                "data: [DONE]\n\n"
            )),
            json!({"text": "Hi", "usage": [5, 4, 1], "stop": "EndTurn"}),
        ),
        (
            "an error at the chunk's top level with finish `error` (OpenRouter)",
            Stream(concat!(
                r#"data: {"id":"gen-1","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}"#,
                "\n\n",
                r#"data: {"id":"gen-1","error":{"code":502,"message":"Provider disconnected","metadata":{"errorType":"provider_overloaded"}},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#,
                "\n\n"
            )),
            json!({"text": "Hi", "failure": ["overloaded", "provider_overloaded"]}),
        ),
        (
            "`metadata.errorType` in a 200 (OpenRouter)",
            Body(
                r#"{"error":{"code":400,"message":"Provider returned error","metadata":{"errorType":"context_length_exceeded","raw":"too big"}},"user_id":"u"}"#,
            ),
            json!({"failure": ["context_overflow", "context_length_exceeded"]}),
        ),
        (
            "finish `error` and nothing else (OpenRouter)",
            Stream(
                r#"data: {"id":"gen-1","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}

"#,
            ),
            json!({"failure": ["server_error", "provider_error"]}),
        ),
        (
            "an error object in a stream (vLLM)",
            Stream(
                "data: {\"object\":\"error\",\"message\":\"This model's maximum context length is 4096 tokens.\",\"type\":\"BadRequestError\",\"param\":null,\"code\":400}\n\n",
            ),
            json!({"failure": ["context_overflow", "BadRequestError"]}),
        ),
        (
            "an error object as a whole (Mistral: order)",
            Error(
                400,
                r#"{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order","param":null,"code":"3230"}"#,
            ),
            json!({"failure": ["format", "invalid_request_message_order"]}),
        ),
        (
            "an error object with 200 (Mistral)",
            Body(
                r#"{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order","param":null,"code":"3230"}"#,
            ),
            json!({"failure": ["format", "invalid_request_message_order"]}),
        ),
        (
            "overflow with n_ctx (llama.cpp)",
            Error(
                400,
                r#"{"error":{"code":400,"message":"request (2009 tokens) exceeds the available context size (512 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":2009,"n_ctx":512}}"#,
            ),
            json!({"failure": ["context_overflow", "exceed_context_size_error"]}),
        ),
        (
            "overflow with 200 and JSON (old llama.cpp)",
            Body(
                r#"{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"invalid_request_error"}}"#,
            ),
            json!({"failure": ["context_overflow", "invalid_request_error"]}),
        ),
        (
            "overflow (Groq)",
            Error(
                400,
                r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            ),
            json!({"failure": ["context_overflow", "context_length_exceeded"]}),
        ),
        (
            "overflow (xAI)",
            Error(
                400,
                r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 200000 tokens."}"#,
            ),
            json!({"failure": ["context_overflow", "Client specified an invalid argument"]}),
        ),
        (
            "overflow (LM Studio)",
            Stream(
                "event: error\ndata: {\"error\":{\"message\":\"Trying to keep the first 4123 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.\"}}\n\n",
            ),
            json!({"failure": ["context_overflow", "provider_error"]}),
        ),
        (
            "overflow (LM Studio, the other words)",
            Error(
                400,
                r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}"#,
            ),
            json!({"failure": ["context_overflow", null]}),
        ),
        (
            "overflow (Mistral)",
            Error(
                400,
                r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","code":"3051"}"#,
            ),
            json!({"failure": ["context_overflow", "invalid_request_prompt"]}),
        ),
        (
            "overflow without a word, 413 (Cerebras)",
            Error(413, ""),
            json!({"failure": ["context_overflow", null]}),
        ),
        (
            "overflow without a word, 400 (Cerebras)",
            Error(400, ""),
            json!({"failure": ["unknown", null]}),
        ),
        (
            "an order refused with 422 (Mistral's validation)",
            Error(
                422,
                r#"{"object":"error","message":{"detail":[{"type":"string_pattern_mismatch","loc":["body","messages"],"msg":"Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."}]},"type":"invalid_request_error","code":null}"#,
            ),
            json!({"failure": ["format", "invalid_request_error"]}),
        ),
        (
            "reasoning_content, and a cache hit (DeepSeek)",
            Stream(concat!(
                r#"data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":"Hm"}}]}"#,
                "\n\n",
                r#"data: {"id":"1","choices":[{"index":0,"delta":{"content":"Yes","reasoning_content":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2}}"#,
                "\n\n",
                "data: [DONE]\n\n"
            )),
            json!({"text": "Yes", "reasoning": "Hm", "usage": [2, 8, 4], "stop": "EndTurn"}),
        ),
        (
            "reasoning (vLLM, LocalAI)",
            Stream(concat!(
                r#"data: {"id":"1","choices":[{"index":0,"delta":{"reasoning":"Hm"}}]}"#,
                "\n\n",
                r#"data: {"id":"1","choices":[{"index":0,"delta":{"content":"Yes"},"finish_reason":"stop"}]}"#,
                "\n\n",
                "data: [DONE]\n\n"
            )),
            json!({"text": "Yes", "reasoning": "Hm", "stop": "EndTurn"}),
        ),
        (
            "usage in x_groq (Groq)",
            Stream(concat!(
                r#"data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"x_groq":{"id":"req_1"}}"#,
                "\n\n",
                r#"data: {"id":"1","choices":[{"index":0,"delta":{"content":"Yes"}}]}"#,
                "\n\n",
                r#"data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"req_1","usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8,"total_time":0.1}}}"#,
                "\n\n",
                "data: [DONE]\n\n"
            )),
            json!({"text": "Yes", "usage": [7, 0, 1], "stop": "EndTurn"}),
        ),
        (
            "x_groq.error beside the finish reason (Groq)",
            Stream(concat!(
                r#"data: {"id":"1","choices":[{"index":0,"delta":{"content":"Ye"}}]}"#,
                "\n\n",
                r#"data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"req_1","error":"over capacity"}}"#,
                "\n\n",
                "data: [DONE]\n\n"
            )),
            json!({"text": "Ye", "failure": ["overloaded", "provider_error"]}),
        ),
        (
            "tool_use_failed in the stream (Groq)",
            Stream(
                "event: error\ndata: {\"error\":{\"message\":\"Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.\",\"type\":\"invalid_request_error\",\"code\":\"tool_use_failed\",\"failed_generation\":\"<function=a{>\",\"status_code\":400}}\n\n",
            ),
            json!({"failure": ["server_error", "tool_use_failed"]}),
        ),
        (
            "usage absent",
            Stream(concat!(
                r#"data: {"choices":[{"index":0,"delta":{"content":"Yes"},"finish_reason":"stop"}]}"#,
                "\n\n",
                "data: [DONE]\n\n"
            )),
            json!({"text": "Yes", "stop": "EndTurn"}),
        ),
        (
            "a line of the native API (Ollama)",
            Body(
                r#"{"model":"m","created_at":"2026-11-20T00:00:00Z","message":{"role":"assistant","content":"Yes"},"done":false}"#,
            ),
            json!({"failure": ["server_error", "not_a_response"]}),
        ),
        (
            "an error of the native API (Ollama)",
            Body(r#"{"error":"model \"m\" not found, try pulling it first"}"#),
            json!({"failure": ["model_not_found", "provider_error"]}),
        ),
        (
            "prompt_filter_results first, annotations last (Azure)",
            Stream(concat!(
                r#"data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}"#,
                "\n\n",
                r#"data: {"choices":[{"index":0,"delta":{"content":"Yes","role":"assistant"},"finish_reason":null,"content_filter_results":{}}],"id":"c","model":"gpt-4o","object":"chat.completion.chunk"}"#,
                "\n\n",
                r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop","content_filter_results":{}}],"id":"c","model":"gpt-4o","object":"chat.completion.chunk"}"#,
                "\n\n",
                r#"data: {"choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{"check_offset":3},"content_filter_results":{"hate":{"filtered":false}}}],"id":"","object":""}"#,
                "\n\n",
                "data: [DONE]\n\n"
            )),
            json!({"text": "Yes", "stop": "EndTurn"}),
        ),
        (
            "content_filter with innererror (Azure)",
            Error(
                400,
                r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{}}}}"#,
            ),
            json!({"failure": ["refusal", "content_filter"]}),
        ),
        (
            "a rate in the gateway's own words (Azure)",
            Error(
                429,
                r#"{"statusCode":429,"message":"Rate limit is exceeded. Try again in 26 seconds."}"#,
            ),
            json!({"failure": ["rate_limit", null]}),
        ),
        (
            "context_length_exceeded (any)",
            Error(
                400,
                r#"{"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            ),
            json!({"failure": ["context_overflow", "context_length_exceeded"]}),
        ),
    ];
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(row, answer, expected)| {
            let found = summary(answer);
            (found != *expected).then(|| format!("{row}: {found} instead of {expected}"))
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}
