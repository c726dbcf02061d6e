//! Every option of Chat Completions, at OpenAI and elsewhere. It must never open a socket.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::{ChatWire, ModelRequest, Wire};
use model::{
    CacheTtl, PromptCache, RequestOptions, ResponseFormat, ThinkingConfig, ThinkingMode,
    ToolChoice, ToolDefinition,
};

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn at(host: &str) -> ChatWire {
    ChatWire::for_host(host)
}

fn request(options: RequestOptions) -> ModelRequest {
    let tool = ToolDefinition {
        name: "a".to_owned(),
        description: String::new(),
        parameters: raw(&json!({"type": "object"})),
        execution_mode: Default::default(),
        timeout_ms: None,
        replay: Default::default(),
        max_result_chars: None,
        retries: 0,
        permission: model::ToolPermission::Allow,
        external: false,
    };
    ModelRequest {
        model: "gpt-x".to_owned(),
        tools: vec![tool].into(),
        messages: vec![Bytes::from_static(b"{\"role\":\"user\",\"content\":\"x\"}")],
        open_end: true,
        max_tokens: 64,
        forces_tool: matches!(
            options.tool_choice,
            Some(ToolChoice::Required | ToolChoice::Tool { .. })
        ),
        options: options.into(),
        cache_key: Some("nx-1".to_owned()),
        ..ModelRequest::default()
    }
}

fn body(host: &str, request: &ModelRequest) -> Value {
    serde_json::from_slice(&at(host).body(request).concat()).unwrap()
}

fn fields(host: &str, request: &ModelRequest) -> Vec<String> {
    at(host).unsupported(request).into_iter().filter_map(|warning| warning.field).collect()
}

fn all() -> RequestOptions {
    RequestOptions {
        tool_choice: Some(ToolChoice::Tool { name: "a".to_owned() }),
        parallel_tool_calls: Some(false),
        output_retries: None,
        response_format: Some(ResponseFormat::JsonSchema {
            name: Some("point".to_owned()),
            schema: raw(&json!({"type": "object"})),
            strict: Some(false),
        }),
        stop_sequences: ["1", "2", "3", "4", "5"].map(str::to_owned).to_vec(),
        prompt_cache: PromptCache { ttl: Some(CacheTtl::Hour), key: Some("mine".to_owned()) },
        metadata: BTreeMap::from([
            ("team".to_owned(), "t".to_owned()),
            ("user_id".to_owned(), "u".to_owned()),
        ]),
        headers: BTreeMap::new(),
        provider_tools: vec![raw(&json!({"type": "web_search"}))],
    }
}

#[test]
fn every_option_is_written_at_openai_and_an_unsupported_one_is_a_warning() {
    let request = ModelRequest { cache_key: Some("mine".to_owned()), ..request(all()) };
    let expected = json!({
        "model": "gpt-x",
        "tools": [
            {
                "type": "function",
                "function": {"name": "a", "description": "", "parameters": {"type": "object"}},
            },
            {"type": "web_search"},
        ],
        "messages": [{"role": "user", "content": "x"}],
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_tokens": 64,
        "tool_choice": {"type": "function", "function": {"name": "a"}},
        "parallel_tool_calls": false,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "point", "strict": false, "schema": {"type": "object"}},
        },
        "stop": ["1", "2", "3", "4"],
        "safety_identifier": "u",
        "prompt_cache_key": "mine",
    });
    assert_eq!(body("api.openai.com", &request), expected);
    assert_eq!(
        fields("api.openai.com", &request),
        ["stopSequences", "promptCache.ttl", "requestMetadata.team"]
    );
}

#[test]
fn other_servers_get_no_field_of_openai_only() {
    let sent = body("gateway.example.com", &request(all()));
    assert_eq!(sent["stop"], json!(["1", "2", "3", "4", "5"]));
    assert_eq!(sent["user"], json!("u"));
    assert_eq!(
        (&sent["safety_identifier"], &sent["prompt_cache_key"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        fields("gateway.example.com", &request(all())),
        ["promptCache.key", "promptCache.ttl", "requestMetadata.team"]
    );
    // The host did not set a derived key.
    let plain = request(RequestOptions::default());
    assert_eq!(body("gateway.example.com", &plain)["prompt_cache_key"], Value::Null);
    assert_eq!(fields("gateway.example.com", &plain), [""; 0]);
}

#[test]
fn a_reasoning_model_of_openai_gets_no_stop_and_another_model_no_effort() {
    let stops = RequestOptions { stop_sequences: vec!["1".to_owned()], ..Default::default() };
    let reasons = ModelRequest { reasoning_model: true, ..request(stops) };
    assert_eq!(body("api.openai.com", &reasons)["stop"], Value::Null);
    assert_eq!(fields("api.openai.com", &reasons), ["stopSequences"]);
    assert_eq!(body("localhost", &reasons)["stop"], json!(["1"]));
    let thinking = ThinkingConfig {
        mode: Some(ThinkingMode::Enabled),
        budget_tokens: Some(2_048),
        effort: None,
    };
    let plain = ModelRequest { thinking: Some(thinking.clone()), ..request(Default::default()) };
    assert_eq!(fields("api.openai.com", &plain), ["thinkingConfig"]);
    let reasons = ModelRequest { reasoning_model: true, ..plain.clone() };
    assert_eq!(fields("api.openai.com", &reasons), [""; 0]);
    assert_eq!(fields("openrouter.ai", &plain), [""; 0]);
}

#[test]
fn choices_and_formats_have_the_apis_names() {
    let choice = |tool_choice| {
        let options = RequestOptions { tool_choice: Some(tool_choice), ..Default::default() };
        body("localhost", &request(options))["tool_choice"].clone()
    };
    assert_eq!(choice(ToolChoice::Auto), json!("auto"));
    assert_eq!(choice(ToolChoice::None), json!("none"));
    assert_eq!(choice(ToolChoice::Required), json!("required"));
    let format = |format| {
        let options = RequestOptions { response_format: Some(format), ..Default::default() };
        body("localhost", &request(options))["response_format"].clone()
    };
    assert_eq!(format(ResponseFormat::JsonObject), json!({"type": "json_object"}));
    let schema = raw(&json!({}));
    assert_eq!(
        format(ResponseFormat::JsonSchema { name: None, schema, strict: None }),
        json!({
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": true, "schema": {}},
        })
    );
    let options = RequestOptions {
        tool_choice: Some(ToolChoice::Required),
        parallel_tool_calls: Some(true),
        ..Default::default()
    };
    let bare = ModelRequest { tools: Vec::new().into(), ..request(options) };
    let sent = body("localhost", &bare);
    assert_eq!((&sent["tool_choice"], &sent["parallel_tool_calls"]), (&Value::Null, &Value::Null));
    assert_eq!(fields("localhost", &bare), ["toolChoice"]);
}
