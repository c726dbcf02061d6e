//! Requests, compared as whole bodies.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::wires::chat::ChatWire;
use crate::{ModelRequest, Wire};
use model::samples::{call_of, message, result_of};
use model::{
    Block, ExecutionMode, Message, ReplayClass, Role, ThinkingConfig, ThinkingEffort, ThinkingMode,
    ToolDefinition,
};

fn call(id: &str, name: &str, arguments: &str) -> Block {
    call_of(name, id, arguments)
}

fn result(id: &str, content: Vec<Block>) -> Message {
    result_of("look", id, content, false)
}

fn image() -> Block {
    Block::Image { mime_type: "image/png".to_owned(), data: "aWI=".to_owned() }
}

fn thinking(text: &str, data: &str) -> Block {
    Block::Thinking {
        thinking: text.to_owned(),
        signature: None,
        provider_data: Some(data.to_owned()),
    }
}

fn encoded(wire: &ChatWire, messages: &[Message]) -> Value {
    let piece = wire.encode_messages(messages);
    serde_json::from_str(&format!("[{}]", std::str::from_utf8(&piece).unwrap())).unwrap()
}

fn standard(messages: &[Message]) -> Value {
    encoded(&ChatWire::default(), messages)
}

fn on(host: &str, messages: &[Message]) -> Value {
    encoded(&ChatWire::for_host(host), messages)
}

fn request(messages: Vec<Bytes>) -> ModelRequest {
    ModelRequest {
        model: "gpt \"x\"".to_owned(),
        system: "Be\nbrief.".to_owned(),
        tools: Arc::from([ToolDefinition {
            name: "look".to_owned(),
            description: "Looks.".to_owned(),
            parameters: RawValue::from_string(
                r##"{"type":"object", "$defs":{"a":{}},"anyOf":[{"$ref":"#/$defs/a"}]}"##
                    .to_owned(),
            )
            .unwrap(),
            execution_mode: ExecutionMode::Sequential,
            timeout_ms: None,
            replay: ReplayClass::Unsafe,
            max_result_chars: None,
            retries: 0,
            permission: model::ToolPermission::Allow,
            external: false,
        }]),
        messages,
        max_tokens: 1_000,
        temperature: Some(0.5),
        thinking: None,
        reasoning_model: false,
        ..ModelRequest::default()
    }
}

fn whole(wire: &ChatWire, request: &ModelRequest) -> String {
    let bytes: Vec<u8> = wire.body(request).concat();
    let text = String::from_utf8(bytes).unwrap();
    serde_json::from_str::<Value>(&text).expect("a body is JSON");
    text
}

#[test]
fn a_body_is_its_head_the_shared_conversation_and_its_settings() {
    let wire = ChatWire::default();
    let first = wire.encode_messages(&[message(Role::User, vec![Block::text("hi")])]);
    let second = wire.encode_messages(&[message(Role::Assistant, vec![Block::text("yes")])]);
    let request = request(vec![first.clone(), second]);
    assert_eq!(
        whole(&wire, &request),
        concat!(
            r#"{"model":"gpt \"x\"","tools":[{"type":"function","function":{"name":"look","description":"Looks.","#,
            r##""parameters":{"type":"object", "$defs":{"a":{}},"anyOf":[{"$ref":"#/$defs/a"}]}}}],"##,
            r#""messages":[{"role":"system","content":"Be\nbrief."},{"role":"user","content":"hi"},"#,
            r#"{"role":"assistant","content":"yes"}],"stream":true,"stream_options":{"include_usage":true},"#,
            r#""max_tokens":1000,"temperature":0.5}"#
        )
    );
    let shared = wire.body(&request).into_iter().any(|piece| piece.as_ptr() == first.as_ptr());
    assert!(shared, "the conversation was copied");
}

#[test]
fn the_bytes_of_one_call_begin_the_next() {
    let wire = ChatWire::default();
    let pieces: Vec<Bytes> = [(Role::User, "a"), (Role::Assistant, "b"), (Role::User, "c")]
        .map(|(role, text)| wire.encode_messages(&[message(role, vec![Block::text(text)])]))
        .into();
    let shorter = request(pieces[..1].to_vec());
    let longer = ModelRequest { max_tokens: 7, temperature: None, ..request(pieces) };
    let (shorter, longer) = (whole(&wire, &shorter), whole(&wire, &longer));
    let common = shorter.find("],\"stream\"").unwrap();
    assert_eq!(longer[..common], shorter[..common]);
}

#[test]
fn absent_fields_are_not_sent() {
    let wire = ChatWire::default();
    let request = ModelRequest {
        system: String::new(),
        tools: Arc::from([]),
        temperature: None,
        ..request(vec![wire.encode_messages(&[message(Role::User, vec![Block::text("hi")])])])
    };
    assert_eq!(
        whole(&wire, &request),
        concat!(
            r#"{"model":"gpt \"x\"","messages":[{"role":"user","content":"hi"}],"stream":true,"#,
            r#""stream_options":{"include_usage":true},"max_tokens":1000}"#
        )
    );
}

#[test]
fn settings_follow_the_model_and_the_server() {
    let settings = |host: &str, reasoning_model: bool, thinking: Option<ThinkingConfig>| {
        let wire = ChatWire::for_host(host);
        let request = ModelRequest {
            reasoning_model,
            thinking,
            temperature: None,
            tools: Arc::from([]),
            system: "S".to_owned(),
            ..request(vec![])
        };
        let mut body: Value = serde_json::from_str(&whole(&wire, &request)).unwrap();
        body["role"] = body["messages"][0]["role"].take();
        for name in ["model", "messages", "stream"] {
            body.as_object_mut().unwrap().remove(name);
        }
        body
    };
    let high = Some(ThinkingConfig { effort: Some(ThinkingEffort::High), ..Default::default() });
    let budget = Some(ThinkingConfig {
        mode: Some(ThinkingMode::Enabled),
        budget_tokens: Some(2_048),
        effort: None,
    });
    let off = Some(ThinkingConfig { mode: Some(ThinkingMode::Disabled), ..Default::default() });
    let usage = json!({"include_usage": true});
    let cases = [
        (
            "api.openai.com",
            true,
            high.clone(),
            json!({"role": "developer", "max_completion_tokens": 1000, "reasoning_effort": "high", "stream_options": usage}),
        ),
        (
            "api.openai.com",
            true,
            budget.clone(),
            json!({"role": "developer", "max_completion_tokens": 1000, "reasoning_effort": "low", "stream_options": usage}),
        ),
        (
            "api.openai.com",
            true,
            off.clone(),
            json!({"role": "developer", "max_completion_tokens": 1000, "stream_options": usage}),
        ),
        (
            "api.openai.com",
            false,
            high.clone(),
            json!({"role": "system", "max_tokens": 1000, "stream_options": usage}),
        ),
        (
            "unknown.example",
            false,
            None,
            json!({"role": "system", "max_tokens": 1000, "stream_options": usage}),
        ),
        (
            "openrouter.ai",
            true,
            high,
            json!({"role": "system", "max_tokens": 1000, "reasoning": {"effort": "high"}, "stream_options": usage}),
        ),
        (
            "openrouter.ai",
            true,
            budget.clone(),
            json!({"role": "system", "max_tokens": 1000, "reasoning": {"max_tokens": 2048}, "stream_options": usage}),
        ),
        (
            "openrouter.ai",
            true,
            off.clone(),
            json!({"role": "system", "max_tokens": 1000, "reasoning": {"enabled": false}, "stream_options": usage}),
        ),
        (
            "api.deepseek.com",
            true,
            budget,
            json!({"role": "system", "max_tokens": 1000, "thinking": {"type": "enabled"}, "stream_options": usage}),
        ),
        (
            "api.deepseek.com",
            true,
            off,
            json!({"role": "system", "max_tokens": 1000, "thinking": {"type": "disabled"}, "stream_options": usage}),
        ),
        ("api.mistral.ai", false, None, json!({"role": "system", "max_tokens": 1000})),
        (
            "notmistral.ai",
            false,
            None,
            json!({"role": "system", "max_tokens": 1000, "stream_options": usage}),
        ),
    ];
    for (host, reasoning_model, thinking, expected) in cases {
        let shown = format!("{host} {reasoning_model} {thinking:?}");
        assert_eq!(settings(host, reasoning_model, thinking), expected, "{shown}");
    }
}

#[test]
fn user_text_is_sent_as_a_text_and_images_as_parts() {
    let messages = [
        message(Role::User, vec![Block::text("a"), Block::text("b")]),
        message(Role::User, vec![Block::text("see"), image(), Block::text("")]),
        message(Role::System, vec![Block::text("rule")]),
    ];
    assert_eq!(
        standard(&messages),
        json!([
            {"role": "user", "content": "a\n\nb"},
            {"role": "user", "content": [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aWI="}}
            ]},
            {"role": "system", "content": "rule"}
        ])
    );
}

#[test]
fn results_follow_their_calls_and_their_images_follow_the_results() {
    let messages = [
        message(
            Role::Assistant,
            vec![call("1", "look", "{\"x\":\"\\\"\"}"), call("2", "look", "")],
        ),
        result("1", vec![Block::text("one"), image(), Block::text("more")]),
        result("2", vec![image()]),
        message(Role::Assistant, vec![Block::text("seen"), call("3", "look", "{\"x")]),
        result("3", vec![]),
    ];
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aWI="}});
    assert_eq!(
        standard(&messages),
        json!([
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{\"x\":\"\\\"\"}"}},
                {"id": "2", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            ]},
            {"role": "tool", "tool_call_id": "1", "content": "one\nmore"},
            {"role": "tool", "tool_call_id": "2", "content": "(the image follows)"},
            {"role": "user", "content": [
                {"type": "text", "text": "Image from tool `look` (call `1`):"}, picture,
                {"type": "text", "text": "Image from tool `look` (call `2`):"}, picture
            ]},
            {"role": "assistant", "content": "seen", "tool_calls": [
                {"id": "3", "type": "function", "function": {"name": "look", "arguments": "{\"invalid_arguments\":\"{\\\"x\"}"}}
            ]},
            {"role": "tool", "tool_call_id": "3", "content": "(no output)"}
        ])
    );
}

#[test]
fn reasoning_is_sent_back_in_its_own_field() {
    let plain = thinking("Hm.", r#"{"field":"reasoning_content"}"#);
    let details = thinking(
        "Hm.",
        r#"{"field":"reasoning","reasoning_details":[{"type":"reasoning.encrypted", "data":"s/+="}]}"#,
    );
    let with_call = |block: &Block| {
        [message(Role::Assistant, vec![block.clone(), Block::text("t"), call("1", "a", "{}")])]
    };
    let answer = |block: &Block| [message(Role::Assistant, vec![block.clone(), Block::text("t")])];
    let fields = |encoded: Value| {
        let mut fields = encoded[0].clone();
        for name in ["role", "content", "tool_calls"] {
            fields.as_object_mut().unwrap().remove(name);
        }
        fields
    };
    assert_eq!(fields(standard(&with_call(&plain))), json!({"reasoning_content": "Hm."}));
    assert_eq!(fields(standard(&answer(&plain))), json!({}));
    let expected = json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "s/+="}]});
    assert_eq!(fields(standard(&with_call(&details))), expected);
    assert_eq!(fields(standard(&answer(&details))), expected);
    let bytes = ChatWire::default().encode_messages(&answer(&details));
    let verbatim = br#"[{"type":"reasoning.encrypted", "data":"s/+="}]"#;
    assert!(bytes.windows(verbatim.len()).any(|window| window == verbatim));
    // DeepSeek requires the field beside calls even without reasoning; other servers never get another's reasoning.
    let bare = Block::text("x");
    assert_eq!(fields(on("api.deepseek.com", &with_call(&bare))), json!({"reasoning_content": ""}));
    assert_eq!(fields(on("api.deepseek.com", &answer(&bare))), json!({}));
    assert_eq!(fields(standard(&with_call(&bare))), json!({}));
}

#[test]
fn the_other_members_of_a_call_are_sent_back_with_it() {
    let call = Block::ToolCall {
        id: "1".to_owned(),
        name: "a".to_owned(),
        arguments_json: "{}".to_owned(),
        incomplete: false,
        provider_data: Some(
            r#"{"extra_content":{"google":{"thought_signature":"s/+="}}}"#.to_owned(),
        ),
    };
    assert_eq!(
        standard(&[message(Role::Assistant, vec![call])]),
        json!([{"role": "assistant", "content": null, "tool_calls": [{
            "id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "s/+="}}
        }]}])
    );
}

#[test]
fn mistral_gets_an_assistant_message_between_a_tool_and_a_user_within_and_across_pieces() {
    let wire = ChatWire::for_host("api.mistral.ai");
    let tool = result("1", vec![Block::text("one \"role\":\"tool\"}")]);
    let user = message(Role::User, vec![Block::text("x \"role\":\"tool\"}")]);
    let bridge = json!({"role": "assistant", "content": "Understood."});
    let roles = |messages: &Value| -> Vec<String> {
        messages
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["role"].as_str().unwrap().to_owned())
            .collect()
    };
    let inside = encoded(&wire, &[tool.clone(), user.clone(), user.clone()]);
    assert_eq!(roles(&inside), ["tool", "assistant", "user", "user"]);
    assert_eq!(inside[1], bridge);
    let pieces = [tool, user.clone(), user].map(|message| wire.encode_messages(&[message]));
    let body: Value = serde_json::from_str(&whole(&wire, &request(pieces.into()))).unwrap();
    assert_eq!(roles(&body["messages"]), ["system", "tool", "assistant", "user", "user"]);
}
