//! Requests as they are sent, compared as whole bodies. It must never open a socket.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{BedrockWire, unary};
use crate::{ModelRequest, Wire};
use model::samples::{call, message, result, user};
use model::{
    Block, CacheTtl, Message, PromptCache, RequestOptions, ResponseFormat, Role, ThinkingConfig,
    ThinkingEffort, ThinkingMode, ToolChoice, ToolDefinition,
};

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const LLAMA: &str = "us.meta.llama4-maverick-17b-instruct-v1:0";
const NOVA: &str = "us.amazon.nova-2-lite-v1:0";

fn tool(description: &str) -> ToolDefinition {
    let schema = r#"{"type":"object","$defs":{"x":{}},"additionalProperties":false}"#;
    ToolDefinition {
        name: "read".to_owned(),
        description: description.to_owned(),
        parameters: RawValue::from_string(schema.to_owned()).unwrap(),
        execution_mode: Default::default(),
        timeout_ms: None,
        replay: Default::default(),
        max_result_chars: None,
        retries: 0,
        permission: model::ToolPermission::Allow,
        external: false,
    }
}

fn request(model: &str, messages: &[Message]) -> ModelRequest {
    ModelRequest {
        model: model.to_owned(),
        messages: vec![BedrockWire.encode_messages(messages)],
        max_tokens: 64,
        options: options(|options| options.prompt_cache.ttl = Some(CacheTtl::Off)),
        ..ModelRequest::default()
    }
}

fn options(change: impl FnOnce(&mut RequestOptions)) -> Arc<RequestOptions> {
    let mut options = RequestOptions::default();
    change(&mut options);
    Arc::new(options)
}

fn text(request: &ModelRequest) -> String {
    String::from_utf8(BedrockWire.body(request).concat()).unwrap()
}

fn body(request: &ModelRequest) -> Value {
    serde_json::from_str(&text(request)).unwrap()
}

fn messages(messages: &[Message]) -> Value {
    let encoded = BedrockWire.encode_messages(messages);
    serde_json::from_slice(&[b"[", encoded.as_ref(), b"]"].concat()).unwrap()
}

#[test]
fn the_whole_request_in_its_own_form() {
    let schema: Value = serde_json::from_str(tool("").parameters.get()).unwrap();
    let given = ModelRequest {
        system: "Be \"brief\".".to_owned(),
        tools: vec![tool("Reads."), tool(" ")].into(),
        temperature: Some(0.5),
        options: options(|options| {
            options.tool_choice = Some(ToolChoice::Required);
            options.stop_sequences = vec!["END".to_owned()];
            options.response_format = Some(ResponseFormat::JsonSchema {
                name: None,
                schema: RawValue::from_string(r#"{"type":"object"}"#.to_owned()).unwrap(),
                strict: None,
            });
            options.metadata = BTreeMap::from(
                [("user_id", "u-1"), ("team", "a/b"), ("no", "ü")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned())),
            );
            let own = r#"{"systemTool":{"name":"nova_grounding"}}"#;
            options.provider_tools = vec![RawValue::from_string(own.to_owned()).unwrap()];
            options.prompt_cache.ttl = Some(CacheTtl::Hour);
        }),
        ..request(CLAUDE, &[user("hi")])
    };
    let point = json!({"cachePoint": {"type": "default", "ttl": "1h"}});
    assert_eq!(
        body(&given),
        json!({
            "system": [{"text": "Be \"brief\"."}, point],
            "toolConfig": {
                "tools": [
                    {"toolSpec": {"name": "read", "description": "Reads.", "inputSchema": {"json": schema}}},
                    {"toolSpec": {"name": "read", "inputSchema": {"json": schema}}},
                    {"systemTool": {"name": "nova_grounding"}},
                    point,
                ],
                "toolChoice": {"any": {}},
            },
            "messages": [{"role": "user", "content": [{"text": "hi"}, point]}],
            "inferenceConfig": {"maxTokens": 64, "temperature": 0.5, "stopSequences": ["END"]},
            "outputConfig": {"textFormat": {
                "type": "json_schema",
                "structure": {"jsonSchema": {"schema": "{\"type\":\"object\"}", "name": "answer"}},
            }},
            "requestMetadata": {"user_id": "u-1", "team": "a/b"},
        })
    );
    assert_eq!(
        body(&request(LLAMA, &[user("hi")])),
        json!({
            "messages": [{"role": "user", "content": [{"text": "hi"}]}],
            "inferenceConfig": {"maxTokens": 64},
        })
    );
}

#[test]
fn the_path_has_the_id_with_any_characters() {
    let path = |model: &str| BedrockWire.path(&request(model, &[]));
    assert_eq!(
        path(CLAUDE),
        "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream"
    );
    assert_eq!(
        path("arn:aws:bedrock:eu-west-1:1:application-inference-profile/a b"),
        "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Aapplication-inference-profile%2Fa%20b/converse-stream"
    );
}

#[test]
fn roles_alternate_results_are_first_and_refused_content_is_not_sent() {
    let image = Block::Image { mime_type: "image/png".to_owned(), data: "aGk=".to_owned() };
    let history = [
        user("look"),
        message(Role::System, vec![image.clone(), Block::text(" \n")]),
        message(
            Role::Assistant,
            vec![
                Block::text(""),
                Block::Thinking { thinking: "hm".to_owned(), signature: None, provider_data: None },
                Block::Thinking {
                    thinking: "so".to_owned(),
                    signature: Some("c2ln".to_owned()),
                    provider_data: None,
                },
                Block::RedactedThinking { data: "RW4=".to_owned(), provider_data: None },
                call("t1", r#"{"a": "\ud83d"}"#),
                call("t2", "[broken"),
            ],
        ),
        message(Role::User, vec![Block::text("meanwhile")]),
        result("t1", vec![Block::text("one"), image], false),
        result("t2", vec![Block::text(" ")], true),
    ];
    assert_eq!(
        messages(&history),
        json!([
            {"role": "user", "content": [
                {"text": "look"},
                {"image": {"format": "png", "source": {"bytes": "aGk="}}},
            ]},
            {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "so", "signature": "c2ln"}}},
                {"reasoningContent": {"redactedContent": "RW4="}},
                {"toolUse": {"toolUseId": "t1", "name": "read", "input": {"a": "\u{fffd}"}}},
                {"toolUse": {"toolUseId": "t2", "name": "read", "input": {}}},
            ]},
            {"role": "user", "content": [
                {"toolResult": {"toolUseId": "t1", "content": [
                    {"text": "one"},
                    {"image": {"format": "png", "source": {"bytes": "aGk="}}},
                ]}},
                {"toolResult": {"status": "error", "toolUseId": "t2", "content": [{"text": "(no output)"}]}},
                {"text": "meanwhile"},
            ]},
        ])
    );
    assert_eq!(messages(&[message(Role::Assistant, vec![Block::text(" ")])]), json!([]));
}

#[test]
fn an_answer_is_sent_back_unchanged() {
    let content = json!([
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
        {"reasoningContent": {"redactedContent": "RW4="}},
        {"toolUse": {"toolUseId": "s", "name": "nova_grounding", "type": "server_tool_use", "input": {}}},
        {"toolResult": {"toolUseId": "s", "type": "nova_grounding_result", "status": "success", "content": []}},
        {"text": "On it."},
        {"citationsContent": {"content": [{"text": "See."}], "citations": [{"title": "a"}]}},
        {"citationsContent": {"citations": [{"title": "b"}]}},
        {"toolUse": {"toolUseId": "t1", "name": "read", "input": {"a": [1, 2.50]}}},
    ]);
    let answer = json!({
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use",
    });
    let (decoded, _) = unary(answer.to_string().as_bytes());
    assert_eq!(
        messages(&[message(Role::Assistant, decoded.blocks)]),
        json!([{"role": "assistant", "content": content}])
    );
}

#[test]
fn the_next_request_begins_with_the_bytes_of_this_one() {
    let first = [user("one")];
    let more = [
        message(Role::Assistant, vec![call("t1", "{}")]),
        result("t1", vec![Block::text("done")], false),
    ];
    let given = |pieces: Vec<Bytes>| ModelRequest {
        system: "s".to_owned(),
        tools: vec![tool("Reads.")].into(),
        messages: pieces,
        ..request(LLAMA, &[])
    };
    let open = BedrockWire.encode_messages(&first);
    let closed = BedrockWire.encode_messages(&[&first[..], &more[..1]].concat());
    let this = text(&given(vec![open]));
    let next = text(&given(vec![closed.clone(), BedrockWire.encode_messages(&more[1..])]));
    let end = this.find(r#"],"inferenceConfig""#).unwrap();
    assert!(next.starts_with(&this[..end]), "{this}\n{next}");

    // The conversation is shared, not copied, also with a cache point after it.
    let cached = ModelRequest {
        model: CLAUDE.to_owned(),
        options: options(|_| {}),
        ..given(vec![closed.clone(), BedrockWire.encode_messages(&first)])
    };
    let pieces = BedrockWire.body(&cached);
    assert!(pieces.iter().any(|piece| piece.as_ptr() == closed.as_ptr()));
    let point = json!({"cachePoint": {"type": "default"}});
    assert_eq!(body(&cached)["messages"][2]["content"], json!([{"text": "one"}, point]));
    assert_eq!(body(&cached)["messages"][0]["content"], json!([{"text": "one"}]));
}

#[test]
fn the_end_of_the_previous_call_has_a_cache_point_too_if_many_blocks_followed() {
    let encode = |messages: &[Message]| BedrockWire.encode_messages(messages);
    let [question, open] = [encode(&[user("one")]), encode(&[user("three")])];
    let answer = encode(&[message(Role::Assistant, vec![Block::text("two")])]);
    let joined = Bytes::from([&question[..], b",", &answer[..]].concat());
    let back = Some(answer.len() + 1);
    for closed in [vec![question.clone(), answer], vec![joined]] {
        let given = |model: &str, earlier_end| ModelRequest {
            messages: [closed.clone(), vec![open.clone()]].concat(),
            open_end: true,
            earlier_end,
            options: options(|_| {}),
            ..request(model, &[])
        };
        let point = json!({"cachePoint": {"type": "default"}});
        let sent = |model: &str, earlier_end| {
            let given = given(model, earlier_end);
            assert!(BedrockWire.body(&given).iter().all(|piece| !piece.is_empty()));
            body(&given)["messages"].clone()
        };
        let content = |texts: [Value; 3]| {
            let [one, two, three] = texts;
            json!([
                {"role": "user", "content": one},
                {"role": "assistant", "content": two},
                {"role": "user", "content": three},
            ])
        };
        let (one, two) = (json!([{"text": "one"}, point]), json!([{"text": "two"}]));
        let (bare, three) = (json!([{"text": "one"}]), json!([{"text": "three"}, point]));
        assert_eq!(sent(CLAUDE, back), content([one, two.clone(), three.clone()]));
        assert_eq!(sent(CLAUDE, None), content([bare.clone(), two.clone(), three.clone()]));
        assert_eq!(sent(CLAUDE, Some(3)), content([bare.clone(), two.clone(), three]));
        assert_eq!(sent(LLAMA, back), content([bare, two, json!([{"text": "three"}])]));
    }
}

#[test]
fn cache_points_are_where_a_model_supports_them() {
    let point = json!({"cachePoint": {"type": "default"}});
    let has = |model: &str, ttl: Option<CacheTtl>| {
        let given = ModelRequest {
            system: "s".to_owned(),
            tools: vec![tool("Reads.")].into(),
            options: options(|options| options.prompt_cache = PromptCache { ttl, key: None }),
            ..request(model, &[user("hi")])
        };
        let body = body(&given);
        let last = |list: &Value| list.as_array().unwrap().last().unwrap().clone();
        [&body["system"], &body["toolConfig"]["tools"], &body["messages"][0]["content"]]
            .map(last)
            .map(|last| match last["cachePoint"]["ttl"].as_str() {
                Some(ttl) => ttl.to_owned(),
                None if last == point => "5m".to_owned(),
                None => String::new(),
            })
            .join(" ")
    };
    let hour = Some(CacheTtl::Hour);
    assert_eq!(has(CLAUDE, None), "5m 5m 5m");
    assert_eq!(has(CLAUDE, hour), "1h 1h 1h");
    assert_eq!(has(CLAUDE, Some(CacheTtl::Off)), "  ");
    assert_eq!(has("anthropic.claude-3-7-sonnet-20250219-v1:0", hour), "5m 5m 5m");
    assert_eq!(has("anthropic.claude-3-haiku-20240307-v1:0", None), "  ");
    assert_eq!(has(NOVA, hour), "5m  5m");
    assert_eq!(has(LLAMA, None), "  ");
}

#[test]
fn thinking_is_requested_in_each_makers_own_fields() {
    let requested = |model: &str, mode, budget_tokens, effort| {
        let given = ModelRequest {
            temperature: Some(1.0),
            thinking: Some(ThinkingConfig { mode, budget_tokens, effort }),
            ..request(model, &[user("hi")])
        };
        let body = body(&given);
        let part = |name: &str| body.get(name).cloned().unwrap_or(Value::Null);
        json!([part("additionalModelRequestFields"), part("outputConfig"), part("inferenceConfig")])
    };
    let (enabled, adaptive, off) =
        (Some(ThinkingMode::Enabled), Some(ThinkingMode::Adaptive), Some(ThinkingMode::Disabled));
    let max = Some(ThinkingEffort::Max);
    let capped = json!({"maxTokens": 64});
    let usual = json!({"maxTokens": 64, "temperature": 1.0});
    assert_eq!(
        requested(CLAUDE, enabled, Some(2_048), None),
        json!([{"thinking": {"type": "enabled", "budget_tokens": 2048}}, null, capped])
    );
    assert_eq!(
        requested(CLAUDE, adaptive, None, max),
        json!([{"thinking": {"type": "adaptive"}}, {"effort": "max"}, capped])
    );
    assert_eq!(
        requested(CLAUDE, off, None, max),
        json!([{"thinking": {"type": "disabled"}}, {"effort": "high"}, usual])
    );
    assert_eq!(
        requested(
            "arn:aws:bedrock:us-east-1:1:application-inference-profile/x",
            adaptive,
            None,
            None
        ),
        json!([{"thinking": {"type": "adaptive"}}, null, capped])
    );
    assert_eq!(
        requested(NOVA, None, Some(2_000), None),
        json!([{"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}, null, usual])
    );
    assert_eq!(
        requested(NOVA, None, None, max),
        json!([{"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}, null, {}])
    );
    assert_eq!(
        requested("openai.gpt-oss-120b-1:0", None, None, Some(ThinkingEffort::Medium)),
        json!([{"reasoning_effort": "medium"}, null, usual])
    );
    for model in [LLAMA, NOVA, "openai.gpt-oss-120b-1:0"] {
        assert_eq!(requested(model, off, None, None), json!([null, null, usual]));
    }
    assert_eq!(requested(LLAMA, enabled, Some(2_048), max), json!([null, null, usual]));
}

#[test]
fn a_tool_choice_is_written_and_none_leaves_out_the_tools() {
    let config = |choice: Option<ToolChoice>, tools: &[ToolDefinition], history: &[Message]| {
        let given = ModelRequest {
            tools: tools.into(),
            options: options(|options| options.tool_choice = choice),
            ..request(LLAMA, history)
        };
        body(&given).get("toolConfig").cloned()
    };
    let tools = [tool("Reads.")];
    let hi = [user("hi")];
    let choice = |choice| config(Some(choice), &tools, &hi).unwrap()["toolChoice"].clone();
    assert_eq!(choice(ToolChoice::Auto), json!({"auto": {}}));
    assert_eq!(choice(ToolChoice::Required), json!({"any": {}}));
    let named = ToolChoice::Tool { name: "read".to_owned() };
    assert_eq!(choice(named), json!({"tool": {"name": "read"}}));
    assert_eq!(config(None, &tools, &hi).unwrap().get("toolChoice"), None);
    assert_eq!(config(Some(ToolChoice::None), &tools, &hi), None);

    // A history with calls needs a tool in the request, even if none may be called.
    let called = [
        user("hi {\"toolUse\":{"),
        message(Role::Assistant, vec![call("t1", "{}")]),
        result("t1", vec![Block::text("done")], false),
    ];
    for (choice, tools) in [(Some(ToolChoice::None), &tools[..]), (None, &[])] {
        let config = config(choice, tools, &called).unwrap();
        assert_eq!(config["tools"][0]["toolSpec"]["name"], "no_tool_available");
        assert_eq!(config["tools"].as_array().unwrap().len(), 1);
    }
    assert_eq!(config(None, &[], &called[..1]), None);
}

#[test]
fn the_status_of_a_failed_result_is_left_out_where_a_model_refuses_it() {
    let history = [
        user("a"),
        message(Role::Assistant, vec![call("t1", "{}"), call("t2", "{}")]),
        result("t1", vec![Block::text("no: {\"toolResult\":{\"status\":\"error\",")], true),
        result("t2", vec![Block::text("yes")], false),
    ];
    let sent = |model: &str| body(&request(model, &history))["messages"].clone();
    let mut expected = messages(&history);
    assert_eq!(sent(CLAUDE), expected);
    assert_eq!(sent(NOVA), expected);
    let first = expected[2]["content"][0]["toolResult"].as_object_mut().unwrap();
    assert_eq!(first.remove("status"), Some(json!("error")));
    assert_eq!(sent(LLAMA), expected);
}
