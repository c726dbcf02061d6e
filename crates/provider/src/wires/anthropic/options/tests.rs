//! Whole bodies with every option, for every kind of server. It must never open a socket.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::wires::anthropic::AnthropicServer;
use crate::{AnthropicWire, ModelRequest, Wire};
use model::samples::message;
use model::{
    Block, CacheTtl, Message, PromptCache, RequestOptions, ResponseFormat, Role, RunWarning,
    ThinkingConfig, ThinkingEffort, ThinkingMode, ToolChoice, ToolDefinition,
};

const SERVERS: [AnthropicServer; 3] =
    [AnthropicServer::Anthropic, AnthropicServer::Vertex, AnthropicServer::Compatible];

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn message_of(role: Role, text: &str) -> Message {
    message(role, vec![Block::text(text)])
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        parameters: raw(&json!({"type": "object"})),
        execution_mode: Default::default(),
        timeout_ms: None,
        replay: Default::default(),
        max_result_chars: None,
        retries: 0,
        permission: model::ToolPermission::Allow,
        external: false,
    }
}

/// A conversation with the open end as its last piece, as the engine passes it.
fn request(options: RequestOptions) -> ModelRequest {
    let piece = |messages: &[Message]| AnthropicWire::default().encode_messages(messages);
    ModelRequest {
        model: "claude-x".to_owned(),
        system: "Be brief.".to_owned(),
        tools: vec![tool("a"), tool("b")].into(),
        messages: vec![
            piece(&[message_of(Role::User, "one"), message_of(Role::Assistant, "two")]),
            piece(&[message_of(Role::User, "three")]),
        ],
        open_end: true,
        max_tokens: 64,
        forces_tool: matches!(
            options.tool_choice,
            Some(ToolChoice::Required | ToolChoice::Tool { .. })
        ),
        options: options.into(),
        ..ModelRequest::default()
    }
}

fn text(server: AnthropicServer, request: &ModelRequest) -> String {
    String::from_utf8(AnthropicWire::new(server).body(request).concat()).unwrap()
}

fn body(server: AnthropicServer, request: &ModelRequest) -> Value {
    serde_json::from_str(&text(server, request)).unwrap()
}

fn cached(ttl: CacheTtl) -> ModelRequest {
    request(RequestOptions {
        prompt_cache: PromptCache { ttl: Some(ttl), key: None },
        ..RequestOptions::default()
    })
}

/// The number of occurrences of a text in another.
fn times(text: &str, needle: &str) -> usize {
    text.matches(needle).count()
}

#[test]
fn the_cache_is_on_by_default_with_three_breakpoints_and_anthropic_gets_the_last_one_as_a_setting()
{
    let five = json!({"type": "ephemeral"});
    let user = |text: &str| json!({"type": "text", "text": text});
    let common = json!({
        "model": "claude-x",
        "max_tokens": 64,
        "stream": true,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": five}],
        "tools": [
            {"name": "a", "input_schema": {"type": "object"}},
            {"name": "b", "input_schema": {"type": "object"}, "cache_control": five},
        ],
        "messages": [
            {"role": "user", "content": [user("one")]},
            {"role": "assistant", "content": [user("two")]},
            {"role": "user", "content": [user("three")]},
        ],
    });
    let request = request(RequestOptions::default());
    let mut at_anthropic = common.clone();
    at_anthropic["cache_control"] = five.clone();
    assert_eq!(body(AnthropicServer::Anthropic, &request), at_anthropic);
    let mut elsewhere = common;
    elsewhere["messages"][2]["content"][0]["cache_control"] = five;
    assert_eq!(body(AnthropicServer::Compatible, &request), elsewhere);
    for server in SERVERS {
        assert_eq!(times(&text(server, &request), "cache_control"), 3, "{server:?}");
    }
}

#[test]
fn the_cache_can_last_an_hour_or_be_off() {
    for server in SERVERS {
        let hour = text(server, &cached(CacheTtl::Hour));
        assert_eq!(times(&hour, r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#), 3);
        let off = body(server, &cached(CacheTtl::Off));
        assert_eq!(off["system"], json!("Be brief."));
        assert_eq!(times(&off.to_string(), "cache_control"), 0);
    }
}

#[test]
fn a_breakpoint_never_changes_a_stored_piece_and_only_the_open_end_has_one() {
    let mut request = request(RequestOptions::default());
    let conversation = request.messages[0].as_ptr();
    let pieces = AnthropicWire::default().body(&request);
    assert!(
        pieces.iter().any(|piece| piece.as_ptr() == conversation),
        "the conversation is shared"
    );
    // A paused answer is continued: its conversation ends with the assistant's message, which may end in thinking.
    request.messages.pop();
    request.open_end = false;
    let sent = body(AnthropicServer::Compatible, &request);
    assert_eq!(times(&sent["messages"].to_string(), "cache_control"), 0);
    // An unknown end of a message gets no breakpoint.
    request.messages = vec![Bytes::from_static(b"{\"role\":\"user\",\"content\":\"x\"}")];
    request.open_end = true;
    let sent = body(AnthropicServer::Compatible, &request);
    assert_eq!(sent["messages"], json!([{"role": "user", "content": "x"}]));
}

#[test]
fn the_messages_of_a_call_begin_those_of_the_next_except_for_the_breakpoint() {
    let wire = AnthropicWire::default();
    let first = request(RequestOptions::default());
    let closed = wire
        .encode_messages(&[message_of(Role::User, "three"), message_of(Role::Assistant, "four")]);
    let open = wire.encode_messages(&[message_of(Role::User, "five")]);
    let messages = vec![first.messages[0].clone(), closed, open];
    let second = ModelRequest { messages, ..first.clone() };
    for server in SERVERS {
        let strip = |request: &ModelRequest| {
            let text = text(server, request);
            text.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
        };
        let (one, two) = (strip(&first), strip(&second));
        let prefix = one.strip_suffix("]}").unwrap();
        assert!(two.starts_with(prefix), "{server:?}\n{prefix}\n{two}");
    }
    // At Anthropic the bytes themselves begin those of the next request: the setting is after the messages.
    let (one, two) = (text(SERVERS[0], &first), text(SERVERS[0], &second));
    let prefix = one.strip_suffix(r#"],"cache_control":{"type":"ephemeral"}}"#).unwrap();
    assert!(two.starts_with(prefix), "{prefix}\n{two}");
}

#[test]
fn the_end_of_the_previous_call_is_marked_too_if_many_blocks_followed() {
    let wire = AnthropicWire::default();
    let question = wire.encode_messages(&[message_of(Role::User, "three")]);
    let answer = wire.encode_messages(&[message_of(Role::Assistant, "four")]);
    let open = wire.encode_messages(&[message_of(Role::User, "five")]);
    let joined = Bytes::from([&question[..], b",", &answer[..]].concat());
    let base = request(RequestOptions::default());
    let first = base.messages[0].clone();
    let back = Some(answer.len() + 1);
    for conversation in [vec![first.clone(), question.clone(), answer], vec![first.clone(), joined]]
    {
        let messages = [conversation, vec![open.clone()]].concat();
        let marked = ModelRequest { messages, earlier_end: back, ..base.clone() };
        for server in SERVERS {
            let sent = text(server, &marked);
            assert_eq!(times(&sent, "cache_control"), 4, "{server:?}");
            assert_eq!(times(&sent, r#""three","cache_control":{"type":"ephemeral"}}]}"#), 1);
            let plain = ModelRequest { earlier_end: None, ..marked.clone() };
            let without = |text: &str| text.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
            assert_eq!(without(&sent), without(&text(server, &plain)));
        }
        // The host's own mark is the fourth already; an invalid position marks nothing.
        let theirs =
            raw(&json!({"type": "x", "name": "x", "cache_control": {"type": "ephemeral"}}));
        let options = RequestOptions { provider_tools: vec![theirs], ..RequestOptions::default() };
        for other in [
            ModelRequest { options: options.into(), ..marked.clone() },
            ModelRequest { earlier_end: Some(3), ..marked.clone() },
            ModelRequest { earlier_end: Some(usize::MAX), ..marked.clone() },
        ] {
            assert!(times(&text(SERVERS[1], &other), "cache_control") <= 3);
        }
    }
}

#[test]
fn every_option_is_written() {
    let options = RequestOptions {
        tool_choice: Some(ToolChoice::Tool { name: "b".to_owned() }),
        parallel_tool_calls: Some(false),
        output_retries: None,
        response_format: Some(ResponseFormat::JsonSchema {
            name: None,
            schema: raw(&json!({"type": "object", "additionalProperties": false})),
            strict: None,
        }),
        stop_sequences: vec!["END".to_owned(), "\"".to_owned()],
        prompt_cache: PromptCache { ttl: Some(CacheTtl::Hour), key: None },
        metadata: BTreeMap::from([("user_id".to_owned(), "u-1".to_owned())]),
        headers: BTreeMap::new(),
        provider_tools: vec![raw(&json!({"type": "web_search_20250305", "name": "web_search"}))],
    };
    let request = ModelRequest {
        thinking: Some(ThinkingConfig { effort: Some(ThinkingEffort::High), ..Default::default() }),
        temperature: Some(0.5),
        ..request(options)
    };
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    let messages = json!([
        {"role": "user", "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "two"}]},
        {"role": "user", "content": [{"type": "text", "text": "three", "cache_control": hour}]},
    ]);
    let expected = json!({
        "anthropic_version": "vertex-2023-10-16",
        "max_tokens": 64,
        "stream": true,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": hour}],
        "tools": [
            {"name": "a", "input_schema": {"type": "object"}},
            {"name": "b", "input_schema": {"type": "object"}},
            {"type": "web_search_20250305", "name": "web_search", "cache_control": hour},
        ],
        "output_config": {
            "effort": "high",
            "format": {
                "type": "json_schema",
                "schema": {"type": "object", "additionalProperties": false},
            },
        },
        "temperature": 0.5,
        "messages": messages,
        "tool_choice": {"type": "tool", "name": "b", "disable_parallel_tool_use": true},
        "stop_sequences": ["END", "\""],
        "metadata": {"user_id": "u-1"},
    });
    assert_eq!(body(AnthropicServer::Vertex, &request), expected);
    assert_eq!(AnthropicWire::default().unsupported(&request), []);
}

#[test]
fn a_tool_choice_is_sent_beside_tools_only() {
    let choice = |tool_choice, parallel_tool_calls| {
        let options = RequestOptions { tool_choice, parallel_tool_calls, ..Default::default() };
        let with = request(options);
        let without = ModelRequest { tools: Vec::new().into(), ..with.clone() };
        let without = body(AnthropicServer::Compatible, &without);
        assert_eq!((&without["tools"], &without["tool_choice"]), (&Value::Null, &Value::Null));
        body(AnthropicServer::Compatible, &with)["tool_choice"].clone()
    };
    let single = Some(false);
    assert_eq!(choice(None, None), Value::Null);
    assert_eq!(choice(None, Some(true)), Value::Null);
    assert_eq!(choice(None, single), json!({"type": "auto", "disable_parallel_tool_use": true}));
    assert_eq!(choice(Some(ToolChoice::Auto), None), json!({"type": "auto"}));
    assert_eq!(choice(Some(ToolChoice::None), single), json!({"type": "none"}));
    assert_eq!(choice(Some(ToolChoice::Required), None), json!({"type": "any"}));
}

#[test]
fn a_provider_tool_that_the_host_marked_retains_its_mark() {
    let provider_tools = |json: &str| RequestOptions {
        provider_tools: vec![RawValue::from_string(json.to_owned()).unwrap()],
        ..RequestOptions::default()
    };
    let own = r#"{ "name": "x", "cache_control": {"type":"ephemeral","ttl":"1h"} }"#;
    for json in [own, "{}", "{ }"] {
        let sent = text(AnthropicServer::Compatible, &request(provider_tools(json)));
        assert!(sent.contains(&format!(",{json}],\"messages\"")), "{sent}");
    }
    let sent = text(AnthropicServer::Compatible, &request(provider_tools("{\"name\":\"x\" }")));
    assert!(sent.contains(r#",{"name":"x" ,"cache_control":{"type":"ephemeral"}}]"#), "{sent}");
}

#[test]
fn an_unsupported_option_is_named_in_a_warning() {
    let options = RequestOptions {
        tool_choice: Some(ToolChoice::Required),
        response_format: Some(ResponseFormat::JsonObject),
        prompt_cache: PromptCache { ttl: None, key: Some("k".to_owned()) },
        metadata: BTreeMap::from([
            ("team".to_owned(), "t".to_owned()),
            ("user_id".to_owned(), "u".to_owned()),
        ]),
        ..RequestOptions::default()
    };
    let enabled = ThinkingConfig {
        mode: Some(ThinkingMode::Enabled),
        budget_tokens: Some(2_048),
        effort: None,
    };
    let forced = ModelRequest { thinking: Some(enabled.clone()), ..request(options) };
    let fields = |warnings: Vec<RunWarning>| -> Vec<String> {
        assert!(warnings.iter().all(|warning| warning.code == "unsupported_option"));
        warnings.into_iter().filter_map(|warning| warning.field).collect()
    };
    let wire = AnthropicWire::default();
    assert_eq!(
        fields(wire.unsupported(&forced)),
        ["responseFormat", "thinkingConfig", "promptCache.key", "requestMetadata.team"]
    );
    let sent = body(AnthropicServer::Compatible, &forced);
    assert_eq!((&sent["thinking"], &sent["metadata"]), (&Value::Null, &json!({"user_id": "u"})));
    let warm = ModelRequest {
        thinking: Some(enabled),
        temperature: Some(1.0),
        ..request(RequestOptions::default())
    };
    assert_eq!(fields(wire.unsupported(&warm)), ["temperature"]);
    let bare = ModelRequest { tools: Vec::new().into(), thinking: None, ..forced };
    assert_eq!(fields(wire.unsupported(&bare))[1], "toolChoice");
}

#[test]
fn a_server_is_known_by_its_host_and_vertex_has_the_model_in_the_path() {
    let path = |host: &str| AnthropicWire::for_host(host).path(&request(Default::default()));
    assert_eq!(path("api.anthropic.com"), "/v1/messages");
    assert_eq!(path("gateway.example.com"), "/v1/messages");
    let vertex = "/publishers/anthropic/models/claude-x:streamRawPredict";
    for host in [
        "europe-west1-aiplatform.googleapis.com",
        "aiplatform.googleapis.com",
        "aiplatform.eu.rep.googleapis.com",
    ] {
        assert_eq!(path(host), vertex, "{host}");
    }
    assert_eq!(path("aiplatform.googleapis.com.example.com"), "/v1/messages");
    let odd = ModelRequest { model: "a@1/../b?c".to_owned(), ..ModelRequest::default() };
    assert_eq!(
        AnthropicWire::new(AnthropicServer::Vertex).path(&odd),
        "/publishers/anthropic/models/a@1%2F..%2Fb%3Fc:streamRawPredict"
    );
}

#[test]
fn a_count_has_the_prompt_and_no_setting_of_the_answer() {
    let options = RequestOptions {
        stop_sequences: vec!["END".to_owned()],
        metadata: BTreeMap::from([("user_id".to_owned(), "u".to_owned())]),
        ..RequestOptions::default()
    };
    let request = ModelRequest { temperature: Some(0.5), ..request(options) };
    let requested = |server| {
        let call = AnthropicWire::new(server).count(&request).unwrap();
        (call.path, serde_json::from_slice::<Value>(&call.body.concat()).unwrap())
    };
    let (path, body) = requested(AnthropicServer::Anthropic);
    let user = |text: &str| json!({"type": "text", "text": text});
    let expected = json!({
        "model": "claude-x",
        "system": "Be brief.",
        "tools": [
            {"name": "a", "input_schema": {"type": "object"}},
            {"name": "b", "input_schema": {"type": "object"}},
        ],
        "messages": [
            {"role": "user", "content": [user("one")]},
            {"role": "assistant", "content": [user("two")]},
            {"role": "user", "content": [user("three")]},
        ],
    });
    assert_eq!((path.as_str(), &body), ("/v1/messages/count_tokens", &expected));
    let (path, body) = requested(AnthropicServer::Vertex);
    assert_eq!(path, "/publishers/anthropic/models/count-tokens:rawPredict");
    assert_eq!(
        (&body["model"], &body["anthropic_version"]),
        (&json!("claude-x"), &json!("vertex-2023-10-16"))
    );
    let wire = AnthropicWire::default();
    assert_eq!(wire.counted(b"{\"input_tokens\":14,\"x\":1}"), Some(14));
    assert_eq!(wire.counted(b"{\"tokens\":14}"), None);
    assert_eq!(wire.counted(b"<html>"), None);
}

#[test]
fn an_unsupported_image_becomes_a_line_of_text() {
    let image =
        |mime_type: &str| Block::Image { mime_type: mime_type.to_owned(), data: "aGk=".to_owned() };
    let mut message = message_of(Role::User, "see");
    message.blocks.extend([image("image/jpg"), image("image/svg+xml")]);
    let encoded = AnthropicWire::default().encode_messages(&[message]);
    let sent: Value = serde_json::from_slice(&encoded).unwrap();
    assert_eq!(
        sent["content"],
        json!([
            {"type": "text", "text": "see"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "aGk="}},
            {"type": "text", "text": "[An image was left out: models take JPEG, PNG, GIF and WebP only.]"},
        ])
    );
}
