//! Requests as they are sent, and answers in shapes that no recording has. It must never open a socket.

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{AnthropicWire, default_version};
use crate::framing::sse::StreamReader;
use crate::{Completion, Delta, DeltaSink, Failure, Flow, ModelRequest, Stop, Wire};
use model::samples::{call, message, result, user};
use model::{
    Block, FailureKind, Message, Role, ThinkingConfig, ThinkingEffort, ThinkingMode, ToolDefinition,
};
use turn::{Accumulated, Accumulator};

fn request() -> ModelRequest {
    ModelRequest {
        model: "claude-x".to_owned(),
        system: String::new(),
        tools: Vec::new().into(),
        messages: vec![Bytes::from_static(b"{\"role\":\"user\",\"content\":[]}")],
        max_tokens: 64,
        temperature: None,
        thinking: None,
        reasoning_model: false,
        ..ModelRequest::default()
    }
}

fn encoded(messages: &[Message]) -> String {
    String::from_utf8(AnthropicWire::default().encode_messages(messages).to_vec()).unwrap()
}

fn encoded_value(messages: &[Message]) -> Value {
    serde_json::from_str(&format!("[{}]", encoded(messages))).unwrap()
}

fn body(request: &ModelRequest) -> Value {
    serde_json::from_slice(&AnthropicWire::default().body(request).concat()).unwrap()
}

#[test]
fn the_body_is_the_head_and_the_shared_messages() {
    let first = AnthropicWire::default().encode_messages(&[user("one")]);
    let second = Bytes::from_static(b"{\"role\":\"assistant\",\"content\":[]}");
    let schema = r#"{"type":"object","$defs":{"x":{}},"additionalProperties":false}"#;
    let tool = |name: &str, description: &str| ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: RawValue::from_string(schema.to_owned()).unwrap(),
        execution_mode: Default::default(),
        timeout_ms: None,
        replay: Default::default(),
        max_result_chars: None,
        retries: 0,
        permission: model::ToolPermission::Allow,
        external: false,
    };
    let request = ModelRequest {
        system: "Be \"kind\".".to_owned(),
        tools: vec![tool("read", "Reads."), tool("bare", "")].into(),
        messages: vec![first.clone(), second.clone()],
        temperature: Some(0.5),
        ..request()
    };
    let pieces = AnthropicWire::default().body(&request);
    assert_eq!(pieces.iter().filter(|it| it.as_ptr() == first.as_ptr()).count(), 1, "shared");
    assert_eq!(
        String::from_utf8(pieces.concat()).unwrap(),
        [
            r#"{"model":"claude-x","max_tokens":64,"stream":true,"system":"#,
            r#"[{"type":"text","text":"Be \"kind\".","cache_control":{"type":"ephemeral"}}],"tools":["#,
            r#"{"name":"read","description":"Reads.","input_schema":"#,
            schema,
            r#"},{"name":"bare","input_schema":"#,
            schema,
            r#","cache_control":{"type":"ephemeral"}}],"temperature":0.5,"messages":["#,
            r#"{"role":"user","content":[{"type":"text","text":"one"}]},"#,
            r#"{"role":"assistant","content":[]}]}"#,
        ]
        .concat()
    );
    assert_eq!(AnthropicWire::default().path(&request), "/v1/messages");
    assert_eq!(body(&ModelRequest { messages: Vec::new(), ..request })["messages"], json!([]));
}

#[test]
fn thinking_is_requested_in_the_given_form() {
    let config = |mode, budget_tokens, effort| ThinkingConfig { mode, budget_tokens, effort };
    let sent = |config| {
        let request = ModelRequest { thinking: Some(config), temperature: Some(0.5), ..request() };
        let body = body(&request);
        (body["thinking"].clone(), body["output_config"].clone(), body["temperature"].clone())
    };
    let enabled = json!({"type": "enabled", "budget_tokens": 2_048});
    let none = Value::Null;
    assert_eq!(
        sent(config(Some(ThinkingMode::Enabled), Some(2_048), None)),
        (enabled.clone(), none.clone(), none.clone())
    );
    assert_eq!(sent(config(None, Some(2_048), None)), (enabled, none.clone(), none.clone()));
    assert_eq!(
        sent(config(Some(ThinkingMode::Adaptive), None, Some(ThinkingEffort::Xhigh))),
        (json!({"type": "adaptive"}), json!({"effort": "xhigh"}), none.clone())
    );
    assert_eq!(
        sent(config(Some(ThinkingMode::Disabled), None, None)),
        (json!({"type": "disabled"}), none.clone(), json!(0.5))
    );
    assert_eq!(
        sent(config(None, None, Some(ThinkingEffort::None))),
        (json!({"type": "disabled"}), none.clone(), json!(0.5))
    );
    assert_eq!(
        sent(config(None, None, Some(ThinkingEffort::Minimal))),
        (none, json!({"effort": "low"}), json!(0.5))
    );
}

#[test]
fn results_and_user_messages_become_one_message_with_the_results_first() {
    let image = Block::Image { mime_type: "image/png".to_owned(), data: "aGk=".to_owned() };
    let history = [
        user("go"),
        message(Role::Assistant, vec![call("a", "{\"p\": 1.50}"), call("b", "")]),
        result("a", vec![Block::text("one"), image], false),
        result("b", Vec::new(), true),
        user("and \u{1}\""),
    ];
    assert_eq!(
        encoded(&history),
        [
            r#"{"role":"user","content":[{"type":"text","text":"go"}]},"#,
            r#"{"role":"assistant","content":["#,
            r#"{"type":"tool_use","id":"a","name":"read","input":{"p": 1.50}},"#,
            r#"{"type":"tool_use","id":"b","name":"read","input":{}}]},"#,
            r#"{"role":"user","content":["#,
            r#"{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"one"},"#,
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]},"#,
            r#"{"type":"tool_result","tool_use_id":"b","content":["#,
            r#"{"type":"text","text":"The tool failed without a message."}],"is_error":true},"#,
            r#"{"type":"text","text":"and \u0001\""}]}"#,
        ]
        .concat()
    );
}

#[test]
fn results_are_first_even_after_a_user_message() {
    let history = [user("wait"), result("a", vec![Block::text("x")], false)];
    let types: Vec<Value> = encoded_value(&history)[0]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].clone())
        .collect();
    assert_eq!(types, ["tool_result", "text"]);
}

#[test]
fn opaque_values_are_sent_back_byte_for_byte() {
    let raw = r#"{"type":"server_tool_use", "id":"s", "input":{"q":1e2}}"#;
    let cited = r#"{"citations":[{"type":"x", "n":1.0}]}"#;
    let called = r#"{"caller":{"type":"code_execution_20250825","tool_id":"s"}}"#;
    let blocks = vec![
        Block::Thinking {
            thinking: String::new(),
            signature: Some("c2ln/+==".to_owned()),
            provider_data: None,
        },
        Block::RedactedThinking { data: "cmVk".to_owned(), provider_data: None },
        Block::Opaque { raw_json: raw.to_owned() },
        Block::Text { text: "t".to_owned(), provider_data: Some(cited.to_owned()), origin: None },
        Block::ToolCall {
            id: "a".to_owned(),
            name: "read".to_owned(),
            arguments_json: "{\"n\":12345678901234567890}".to_owned(),
            incomplete: false,
            provider_data: Some(called.to_owned()),
        },
    ];
    let expected = [
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"c2ln/+=="},"#,
        r#"{"type":"redacted_thinking","data":"cmVk"},"#,
        raw,
        r#",{"type":"text","text":"t","citations":[{"type":"x", "n":1.0}]},"#,
        r#"{"type":"tool_use","id":"a","name":"read","input":{"n":12345678901234567890},"#,
        r#""caller":{"type":"code_execution_20250825","tool_id":"s"}}]}"#,
    ];
    assert_eq!(encoded(&[message(Role::Assistant, blocks)]), expected.concat());
}

#[test]
fn content_that_the_api_refuses_is_not_sent() {
    let unsigned = Block::Thinking {
        thinking: "x".to_owned(),
        signature: None,
        provider_data: Some("{\"reasoning_details\":[]}".to_owned()),
    };
    let cut = Block::ToolCall {
        id: "c".to_owned(),
        name: "read".to_owned(),
        arguments_json: "{\"p".to_owned(),
        incomplete: true,
        provider_data: None,
    };
    let empty = [
        user(""),
        message(Role::Assistant, vec![unsigned, cut, Block::text(" \n")]),
        message(Role::Assistant, vec![Block::Opaque { raw_json: "{broken".to_owned() }]),
    ];
    assert_eq!(encoded(&empty), "");
    let text = Block::text("x");
    let history = [user("a"), empty[1].clone(), user("b"), message(Role::Assistant, vec![text])];
    assert_eq!(
        encoded(&history),
        [
            r#"{"role":"user","content":[{"type":"text","text":"a"}]},"#,
            r#"{"role":"user","content":[{"type":"text","text":"b"}]},"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"x"}]}"#,
        ]
        .concat()
    );
}

#[test]
fn arguments_that_are_no_object_or_have_lone_surrogates_never_break_the_request() {
    let calls = ["{\"p", "[1]", "null", "{\"p\":\"\\ud83d\"}"].map(|json| call("a", json));
    let inputs: Vec<Value> =
        encoded_value(&[message(Role::Assistant, calls.to_vec())])[0]["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["input"].clone())
            .collect();
    assert_eq!(inputs, [json!({}), json!({}), json!({}), json!({"p": "\u{fffd}"})]);
}

#[test]
fn an_error_result_has_text_only() {
    let image = Block::Image { mime_type: "image/png".to_owned(), data: "aGk=".to_owned() };
    let history = [result("a", vec![image, Block::text("why")], true)];
    let content = json!([{"type": "text", "text": "why"}]);
    assert_eq!(encoded_value(&history)[0]["content"][0]["content"], content);
}

#[test]
fn the_version_is_the_newest_at_anthropic_and_the_oldest_elsewhere() {
    assert_eq!(default_version("API.anthropic.com"), "2026-10-21");
    assert_eq!(default_version("gateway.example"), "2023-06-01");
}

/// Replays events given as JSON texts.
fn replay(events: &[&str]) -> (Accumulated, Result<Completion, Failure>) {
    let mut accumulator = Accumulator::new();
    let mut reader = StreamReader::new(AnthropicWire::default().decoder());
    let stream: String = events.iter().map(|json| format!("data: {json}\n\n")).collect();
    let outcome = reader.feed(stream.as_bytes(), &mut accumulator);
    let outcome = outcome.and_then(|_| reader.end(&mut accumulator));
    (accumulator.finish(), outcome)
}

const START: &str = r#"{"type":"message_start","message":{"id":"m","model":"x"}}"#;
const END: [&str; 2] = [
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
    r#"{"type":"message_stop"}"#,
];

#[test]
fn a_stop_that_overtakes_its_reason_still_ends_the_response() {
    let (_, outcome) = replay(&[START, END[1], END[0]]);
    let stop_raw = "tool_use".to_owned();
    assert_eq!(outcome, Ok(Completion { stop: Stop::ToolUse, stop_raw, status: 200 }));
}

#[test]
fn a_provider_run_call_is_stored_with_its_input_from_deltas() {
    let events = [
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{},"caller":{"type":"direct"}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\": "}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"a\"}"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"t","input":{}}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"que"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        END[0],
        END[1],
    ];
    let raw_json = r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"query": "a"},"caller":{"type":"direct"}}"#;
    let (accumulated, outcome) = replay(&events);
    assert!(outcome.is_ok());
    assert_eq!(accumulated.blocks, [Block::Opaque { raw_json: raw_json.to_owned() }]);
}

#[test]
fn citations_and_callers_are_stored_for_the_replay() {
    let events = [
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","citations":[]}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"n": 1}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"n": 2}}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"n","input":{},"caller":{"type":"code_execution_20250825","tool_id":"s"},"toolset_name":"t"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        END[0],
        END[1],
    ];
    let (accumulated, outcome) = replay(&events);
    assert!(outcome.is_ok());
    let caller =
        r#"{"caller":{"type":"code_execution_20250825","tool_id":"s"},"toolset_name":"t"}"#;
    let expected = [
        Block::Text {
            text: "a".to_owned(),
            provider_data: Some("{\"citations\":[{\"n\": 1},{\"n\": 2}]}".to_owned()),
            origin: None,
        },
        Block::ToolCall {
            id: "a".to_owned(),
            name: "n".to_owned(),
            arguments_json: String::new(),
            incomplete: false,
            provider_data: Some(caller.to_owned()),
        },
    ];
    assert_eq!(accumulated.blocks, expected);
}

#[test]
fn a_call_whose_first_fragments_were_lost_never_closes() {
    let events = [
        START,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"force\":true}"}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"n","input":{}}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        END[0],
        END[1],
    ];
    let (accumulated, _) = replay(&events);
    let incomplete: Vec<bool> = accumulated
        .blocks
        .iter()
        .map(|block| matches!(block, Block::ToolCall { incomplete: true, .. }))
        .collect();
    assert_eq!(incomplete, [true]);
}

#[test]
fn an_invalid_event_is_skipped_if_its_name_is_unknown_and_fails_otherwise() {
    let mut sink = Accumulator::new();
    let mut decoder = AnthropicWire::default().decoder();
    for (name, data) in [("novelty", &b"\xff\x00"[..]), ("", b"[DONE]"), ("ping", b"{")] {
        assert_eq!(decoder.event(name, data, &mut sink), Ok(Flow::More), "{name}");
    }
    for (name, data) in [
        ("content_block_delta", &b"\xff\x00"[..]),
        ("", b"{\"type\":"),
        ("message_start", b"{\"type\":\"message_start\",\"message\":7}"),
        ("content_block_start", b"{\"type\":\"content_block_start\"}"),
        (
            "content_block_delta",
            b"{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":7}}",
        ),
    ] {
        let failure = decoder.event(name, data, &mut sink).unwrap_err();
        assert_eq!(failure.code.as_deref(), Some("malformed_event"), "{name}");
    }
}

#[test]
fn an_error_has_its_stable_cause_and_a_bounded_message() {
    let words = "word ".repeat(2_000);
    let error = format!(
        r#"{{"type":"error","error":{{"type":"rate_limit_error","message":"{words}","details":{{"error_code":"enforced_spend_limit_reached"}}}}}}"#
    );
    let (_, outcome) = replay(&[&error]);
    let failure = outcome.unwrap_err();
    assert_eq!(
        (failure.kind, failure.code.as_deref()),
        (FailureKind::Billing, Some("enforced_spend_limit_reached"))
    );
    assert!((200..=310).contains(&failure.message.chars().count()), "{}", failure.message);
    let (_, outcome) = replay(&[r#"{"error":"boom"}"#]);
    assert_eq!(outcome, Err(Failure::new(FailureKind::Unknown, "provider_error", "boom")));
}

/// The deltas that the sink receives, without the blocks around them.
fn deltas_of(data: &str) -> (Vec<String>, Result<Flow, Failure>) {
    #[derive(Default)]
    struct Log(Vec<String>);
    impl DeltaSink for Log {
        fn delta(&mut self, delta: Delta<'_>) {
            self.0.push(format!("{delta:?}"));
        }
    }
    let mut log = Log::default();
    let outcome =
        AnthropicWire::default().decoder().event("content_block_delta", data.as_bytes(), &mut log);
    (log.0, outcome)
}

#[test]
fn a_delta_has_the_same_meaning_in_every_json_form() {
    let literals =
        ["\"\"", "\"a\"", r#""a\n\"}}""#, r#""\ud83e\udd80""#, r#""\ud83e""#, "null", "\"é🦀\""];
    for (kind, field) in [
        ("text_delta", "text"),
        ("thinking_delta", "thinking"),
        ("input_json_delta", "partial_json"),
    ] {
        for literal in literals {
            let canonical = format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"{kind}","{field}":{literal}}}}}"#
            );
            let spaced = format!("{} }} ", canonical.strip_suffix('}').unwrap());
            let reordered = format!(
                r#"{{"delta":{{"{field}":{literal},"type":"{kind}"}},"index":0, "type":"content_block_delta"}}"#
            );
            let extended = format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"{kind}","{field}":{literal},"x":"y"}}}}"#
            );
            let expected = deltas_of(&reordered);
            for form in [canonical, spaced, extended] {
                assert_eq!(deltas_of(&form), expected, "{form}");
            }
        }
    }
}

#[test]
fn an_event_that_only_resembles_a_delta_is_refused() {
    let start = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"#;
    for end in ["\"a\"}", "\"a}}", "a}}", "\"a\" \"b\"}}", "7}}", "\"\u{1}\"}}"] {
        let (deltas, outcome) = deltas_of(&format!("{start}{end}"));
        let code = outcome.unwrap_err().code;
        assert_eq!((deltas, code.as_deref()), (Vec::new(), Some("malformed_event")), "{end}");
    }
}
