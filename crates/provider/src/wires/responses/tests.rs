//! Requests as they are sent, and answers sent back unchanged. It must never open a socket.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::ResponsesWire;
use crate::framing::sse::StreamReader;
use crate::{Completion, Failure, Flow, ModelRequest, Stop, Wire};
use model::samples::{message, result_of, user};
use model::{
    Block, CacheTtl, Message, PromptCache, RequestOptions, ResponseFormat, Role, ThinkingConfig,
    ThinkingEffort, ThinkingMode, ToolChoice, ToolDefinition,
};
use turn::{Accumulated, Accumulator};

fn call(id: &str, arguments_json: &str, provider_data: Option<&str>) -> Block {
    Block::ToolCall {
        id: id.to_owned(),
        name: "read".to_owned(),
        arguments_json: arguments_json.to_owned(),
        incomplete: false,
        provider_data: provider_data.map(str::to_owned),
    }
}

fn result(id: &str, content: Vec<Block>) -> Message {
    result_of("read", id, content, false)
}

fn thinking(item: &str) -> Block {
    let provider_data = Some(item.to_owned());
    Block::Thinking { thinking: "shown".to_owned(), signature: None, provider_data }
}

fn text_block(text: &str, provider_data: &str) -> Block {
    Block::Text {
        text: text.to_owned(),
        provider_data: Some(provider_data.to_owned()),
        origin: None,
    }
}

fn raw(json: &Value) -> Box<RawValue> {
    RawValue::from_string(json.to_string()).unwrap()
}

fn encoded(messages: &[Message]) -> String {
    String::from_utf8(ResponsesWire::default().encode_messages(messages).to_vec()).unwrap()
}

fn items(messages: &[Message]) -> Vec<Value> {
    serde_json::from_str(&format!("[{}]", encoded(messages))).unwrap()
}

fn whole(request: &ModelRequest) -> String {
    String::from_utf8(ResponsesWire::new(true).body(request).concat()).unwrap()
}

fn body(request: &ModelRequest) -> Value {
    serde_json::from_str(&whole(request)).unwrap()
}

fn request() -> ModelRequest {
    ModelRequest {
        model: "gpt-x".to_owned(),
        system: "Be \"brief\".".to_owned(),
        messages: vec![ResponsesWire::default().encode_messages(&[user("hi")])],
        max_tokens: 64,
        ..ModelRequest::default()
    }
}

/// The differences of a request's body from the smallest one.
fn changes(request: &ModelRequest) -> Value {
    let least = body(&self::request());
    let mut changed = body(request);
    changed.as_object_mut().unwrap().retain(|name, value| least.get(name) != Some(value));
    changed
}

#[test]
fn a_request_has_its_options_and_nothing_else() {
    let input = json!([
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    ]);
    let least = json!({
        "model": "gpt-x", "instructions": "Be \"brief\".", "input": input,
        "stream": true, "store": false, "max_output_tokens": 64
    });
    assert_eq!(body(&request()), least);
    let schema = json!({"type": "object", "$defs": {"a": {}}, "additionalProperties": false});
    let search = json!({"type": "web_search", "filters": {"allowed_domains": ["a.b"]}});
    let tool = ToolDefinition {
        name: "read".to_owned(),
        description: "Reads.".to_owned(),
        parameters: raw(&schema),
        execution_mode: model::ExecutionMode::default(),
        timeout_ms: None,
        replay: model::ReplayClass::default(),
        max_result_chars: None,
        retries: 0,
        permission: model::ToolPermission::Allow,
        external: false,
    };
    let full = ModelRequest {
        tools: vec![tool].into(),
        max_tokens: 4,
        temperature: Some(0.25),
        cache_key: Some("k".to_owned()),
        options: RequestOptions {
            tool_choice: Some(ToolChoice::Tool { name: "read".to_owned() }),
            parallel_tool_calls: Some(false),
            response_format: Some(ResponseFormat::JsonSchema {
                name: None,
                schema: raw(&schema),
                strict: None,
            }),
            stop_sequences: vec!["END".to_owned()],
            metadata: [("user_id", "u1"), ("team", "blue")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            provider_tools: vec![raw(&search)],
            ..RequestOptions::default()
        }
        .into(),
        ..request()
    };
    assert_eq!(
        changes(&full),
        json!({
            "tools": [
                {
                    "type": "function", "name": "read", "description": "Reads.",
                    "parameters": schema, "strict": false
                },
                search
            ],
            // The smallest cap that the API accepts.
            "max_output_tokens": 16,
            "temperature": 0.25,
            "tool_choice": {"type": "function", "name": "read"},
            "parallel_tool_calls": false,
            "text": {"format": {
                "type": "json_schema", "name": "answer", "schema": schema, "strict": true
            }},
            "prompt_cache_key": "k",
            "safety_identifier": "u1",
            "metadata": {"team": "blue"},
        })
    );
}

#[test]
fn impossible_options_are_left_out() {
    let options = RequestOptions {
        tool_choice: Some(ToolChoice::Required),
        parallel_tool_calls: Some(true),
        prompt_cache: PromptCache { ttl: Some(CacheTtl::Off), key: Some("k".to_owned()) },
        ..RequestOptions::default()
    };
    let thinking = ThinkingConfig { effort: Some(ThinkingEffort::High), ..Default::default() };
    let requested = ModelRequest {
        temperature: Some(f64::NAN),
        thinking: Some(thinking),
        options: options.into(),
        ..request()
    };
    assert_eq!(changes(&requested), json!({}));
    let json_object = RequestOptions {
        response_format: Some(ResponseFormat::JsonObject),
        ..RequestOptions::default()
    };
    let requested = ModelRequest { options: json_object.into(), ..request() };
    assert_eq!(changes(&requested), json!({"text": {"format": {"type": "json_object"}}}));
}

#[test]
fn a_reasoning_model_gets_an_effort_and_returns_a_summary_and_its_encrypted_reasoning() {
    let config = |mode, budget_tokens, effort| Some(ThinkingConfig { mode, budget_tokens, effort });
    let sent = |thinking| {
        let mut changes = changes(&ModelRequest { thinking, reasoning_model: true, ..request() });
        let include = changes.as_object_mut().unwrap().remove("include");
        assert_eq!(include, Some(json!(["reasoning.encrypted_content"])));
        changes
    };
    assert_eq!(sent(None), json!({}));
    let off = json!({"reasoning": {"effort": "none"}});
    assert_eq!(sent(config(Some(ThinkingMode::Disabled), None, None)), off);
    assert_eq!(sent(config(None, None, Some(ThinkingEffort::None))), off);
    assert_eq!(
        sent(config(None, None, Some(ThinkingEffort::Xhigh))),
        json!({"reasoning": {"effort": "xhigh", "summary": "auto"}})
    );
    assert_eq!(
        sent(config(Some(ThinkingMode::Enabled), Some(8_192), None)),
        json!({"reasoning": {"effort": "medium", "summary": "auto"}})
    );
    assert_eq!(
        sent(config(Some(ThinkingMode::Adaptive), None, None)),
        json!({"reasoning": {"summary": "auto"}})
    );
}

#[test]
fn images_and_results_have_the_forms_of_the_api() {
    let image = Block::Image { mime_type: "image/png".to_owned(), data: "aGk=".to_owned() };
    let picture = json!({
        "type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="
    });
    let history = [
        message(Role::User, vec![Block::text("what?"), image.clone()]),
        message(Role::System, vec![Block::text("careful")]),
        message(Role::Assistant, vec![Block::text("I "), Block::text("look.")]),
        result("c1", vec![Block::text("one"), Block::text("two")]),
        result("c2", vec![Block::text("here"), image]),
        result("c3", vec![]),
        message(Role::User, vec![]),
    ];
    assert_eq!(
        items(&history),
        [
            json!({"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "what?"}, picture
            ]}),
            json!({"type": "message", "role": "system", "content": [
                {"type": "input_text", "text": "careful"}
            ]}),
            json!({"type": "message", "role": "assistant", "content": "I look."}),
            json!({"type": "function_call_output", "call_id": "c1", "output": "one\ntwo"}),
            json!({"type": "function_call_output", "call_id": "c2", "output": [
                {"type": "input_text", "text": "here"}, picture
            ]}),
            json!({"type": "function_call_output", "call_id": "c3", "output": "(no output)"}),
        ]
    );
}

#[test]
fn the_items_of_the_model_are_sent_back_unchanged() {
    let stored = r#"{"item":{"id":"msg_1","status":"completed","phase":"commentary","x": 1.0},"part":{"type":"output_text","annotations":[{"n": 1e2}]}}"#;
    let other = r#"{"item":{"id":"msg_2","phase":"final_answer"},"part":{"type":"refusal"}}"#;
    let search = r#"{"id":"ws_1","type":"web_search_call", "action":{"query":"x"}}"#;
    let blocks = vec![
        thinking(
            r#"{"id":"rs_1","type":"reasoning","summary":[ ],"encrypted_content":"gA/+==","content":null}"#,
        ),
        text_block("a", stored),
        text_block("b", stored),
        Block::Opaque { raw_json: search.to_owned() },
        text_block("no", other),
        call(
            "call_1",
            "{\"n\": 1.50}",
            Some(r#"{"namespace":"files","caller":{"type":"program"}}"#),
        ),
    ];
    let message_1 = r#"{"type":"message","role":"assistant","id":"msg_1","status":"completed","phase":"commentary","x":1.0,"content":[{"type":"output_text","text":"a","annotations":[{"n": 1e2}]},{"type":"output_text","text":"b","annotations":[{"n": 1e2}]}]}"#;
    let expected = [
        r#"{"type":"reasoning","summary":[ ],"encrypted_content":"gA/+=="}"#,
        message_1,
        search,
        r#"{"type":"message","role":"assistant","id":"msg_2","phase":"final_answer","content":[{"type":"refusal","refusal":"no"}]}"#,
        r#"{"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"n\": 1.50}","namespace":"files","caller":{"type":"program"}}"#,
    ];
    assert_eq!(encoded(&[message(Role::Assistant, blocks)]), expected.join(","));
}

#[test]
fn an_id_is_sent_back_only_where_the_api_accepts_it() {
    let long = "x".repeat(65);
    let of = |id: &str| format!(r#"{{"item":{{"id":"{id}","phase":"final_answer"}},"part":{{}}}}"#);
    let search =
        |id: &str| format!(r#"{{"id":"{id}","type":"web_search_call","status":"completed"}}"#);
    let encrypted = r#"{"id":"rs","type":"reasoning","summary":[],"encrypted_content":"e"}"#;
    let plain = r#"{"id":"rs","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"t"}]}"#;
    let summary =
        r#"{"id":"rs","type":"reasoning","summary":[{"type":"summary_text","text":"t"}]}"#;
    let ids = |blocks: Vec<Block>| -> Vec<(Value, Value)> {
        let items = items(&[message(Role::Assistant, blocks)]);
        items.into_iter().map(|item| (item["type"].clone(), item["id"].clone())).collect()
    };
    let msg = |id| (json!("message"), json!(id));
    let reasoning = |id| (json!("reasoning"), id);
    assert_eq!(ids(vec![text_block("a", &of("m"))]), [msg(Some("m"))]);
    assert_eq!(ids(vec![text_block("a", &of(&long))]), [msg(None)]);
    assert_eq!(
        ids(vec![thinking(encrypted), text_block("a", &of("m"))]),
        [reasoning(Value::Null), msg(Some("m"))]
    );
    assert_eq!(
        ids(vec![thinking(plain), text_block("a", &of("m"))]),
        [reasoning(json!("rs")), msg(Some("m"))]
    );
    // The reasoning cannot be sent back, so the id that requires it must not be either.
    assert_eq!(ids(vec![thinking(summary), text_block("a", &of("m"))]), [msg(None)]);
    let cut = Block::Thinking { thinking: "t".to_owned(), signature: None, provider_data: None };
    assert_eq!(ids(vec![cut, text_block("a", &of("m"))]), [msg(None)]);
    let opaque = |id: &str| Block::Opaque { raw_json: search(id) };
    let kind = json!("web_search_call");
    assert_eq!(
        ids(vec![opaque("ws"), opaque(&long)]),
        [(kind.clone(), json!("ws")), (kind, Value::Null)]
    );
}

#[test]
fn content_that_the_api_refuses_is_not_sent() {
    let cut = Block::ToolCall {
        id: "c".to_owned(),
        name: "read".to_owned(),
        arguments_json: "{\"p".to_owned(),
        incomplete: true,
        provider_data: None,
    };
    let blocks = vec![
        thinking("{\"field\":\"reasoning_content\"}"),
        Block::RedactedThinking { data: "x".to_owned(), provider_data: None },
        Block::text(""),
        Block::Opaque { raw_json: "{broken".to_owned() },
        cut,
    ];
    assert_eq!(encoded(&[user(""), message(Role::Assistant, blocks)]), "");
    let arguments = ["", "{\"p", "[1]", "{\"p\":\"\\ud83d\"}"];
    let calls = arguments.map(|arguments| call("c", arguments, None)).to_vec();
    let sent: Vec<Value> = items(&[message(Role::Assistant, calls)])
        .into_iter()
        .map(|item| item["arguments"].clone())
        .collect();
    assert_eq!(sent, ["{}", "{}", "{}", "{\"p\":\"\\ud83d\"}"]);
}

#[test]
fn the_next_request_begins_with_the_bytes_of_this_one() {
    let first = request();
    let next = ModelRequest {
        messages: vec![
            first.messages[0].clone(),
            ResponsesWire::default().encode_messages(&[
                message(Role::Assistant, vec![call("c", "{}", None)]),
                result("c", vec![Block::text("x")]),
            ]),
        ],
        max_tokens: 9_000,
        temperature: Some(1.0),
        reasoning_model: true,
        ..request()
    };
    let first = whole(&first);
    let prefix = &first[..first.rfind("],\"stream\"").unwrap()];
    assert!(whole(&next).starts_with(prefix));
    let empty = ModelRequest { messages: vec![], ..request() };
    assert_eq!(body(&empty)["input"], json!([]));
}

/// Replays events given as JSON texts.
fn replay(events: &[String]) -> (Accumulated, Result<Completion, Failure>) {
    let stream: String = events.iter().map(|json| format!("data: {json}\n\n")).collect();
    replay_bytes(&[stream.as_bytes()])
}

fn replay_bytes(chunks: &[&[u8]]) -> (Accumulated, Result<Completion, Failure>) {
    let mut accumulator = Accumulator::new();
    let mut reader = StreamReader::new(ResponsesWire::default().decoder());
    let mut outcome = Ok(Flow::More);
    for chunk in chunks {
        outcome = reader.feed(chunk, &mut accumulator);
        if outcome != Ok(Flow::More) {
            break;
        }
    }
    let outcome = outcome.and_then(|_| reader.end(&mut accumulator));
    (accumulator.finish(), outcome)
}

/// The events of a response with these items, with or without fragments.
fn stream_of(items: &[Value], with_deltas: bool) -> Vec<String> {
    let response = |status: &str| json!({"id": "resp_1", "model": "gpt-x", "status": status});
    let mut out = vec![json!({"type": "response.created", "response": response("in_progress")})];
    for (index, item) in items.iter().enumerate() {
        out.push(json!({
            "type": "response.output_item.added", "output_index": index,
            "item": {
                "type": item["type"], "id": item["id"], "call_id": item["call_id"],
                "name": item["name"]
            }
        }));
        let delta = |kind: &str, part: usize, delta: &Value| {
            json!({
                "type": format!("response.{kind}.delta"), "output_index": index,
                "content_index": part, "summary_index": part, "item_id": item["id"],
                "delta": delta
            })
        };
        if with_deltas {
            let parts = |field: &str| item[field].as_array().cloned().unwrap_or_default();
            for (part, content) in parts("content").iter().enumerate() {
                out.push(match content["refusal"].is_string() {
                    true => delta("refusal", part, &content["refusal"]),
                    false => delta("output_text", part, &content["text"]),
                });
            }
            for (part, content) in parts("summary").iter().enumerate() {
                out.push(delta("reasoning_summary_text", part, &content["text"]));
            }
            if item["arguments"].is_string() {
                out.push(delta("function_call_arguments", 0, &item["arguments"]));
            }
        }
        out.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    out.push(json!({"type": "response.completed", "response": response("completed")}));
    out.iter().map(Value::to_string).collect()
}

#[test]
fn a_completed_response_with_a_call_that_was_never_finished_runs_nothing() {
    let item = json!({
        "type": "function_call", "id": "f", "call_id": "c", "name": "read", "arguments": "{}"
    });
    let mut events = stream_of(&[item], true);
    events.remove(3);
    let (decoded, outcome) = replay(&events);
    assert_eq!(outcome.map(|completion| completion.stop), Ok(Stop::MalformedToolCall));
    assert!(matches!(decoded.blocks.as_slice(), [Block::ToolCall { incomplete: true, .. }]));
}

#[test]
fn an_invalid_event_is_skipped_if_its_name_is_unknown_and_fails_otherwise() {
    let mut sink = Accumulator::new();
    let mut decoder = ResponsesWire::default().decoder();
    for (name, data) in [
        ("novelty", &b"\xff\x00"[..]),
        ("", b"[DONE]"),
        ("", b""),
        ("", br#"{"type":"response.novelty","delta":{"a":1},"output_index":"x"}"#),
        ("", br#"{"type":"response.shell_call_output_content.delta","delta":{"stdout":"x"}}"#),
    ] {
        assert_eq!(decoder.event(name, data, &mut sink), Ok(Flow::More), "{name}");
    }
    for (name, data) in [
        ("response.output_text.delta", &b"\xff\x00"[..]),
        ("", b"{\"type\":"),
        ("", br#"{"type":"response.output_text.delta","delta":7}"#),
        ("", br#"{"type":"response.output_item.done","output_index":0}"#),
        ("", br#"{"type":"response.output_item.done","item":{"type":"message","content":7}}"#),
        ("", br#"{"type":"response.completed"}"#),
        ("", br#"{"type":"response.completed","response":7}"#),
    ] {
        let failure = decoder.event(name, data, &mut sink).unwrap_err();
        assert_eq!(failure.code.as_deref(), Some("malformed_event"), "{name}");
    }
    let failure = decoder.event("error", b"upstream is gone", &mut sink).unwrap_err();
    assert_eq!(failure.message, "upstream is gone");
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-z \\n\"\\\\é🦀]{1,12}", 1 => Just("}],\"".to_owned())]
}

fn any_item() -> impl Strategy<Value = Value> {
    let part =
        (any_text(), prop::bool::weighted(0.1)).prop_map(|(text_block, refused)| match refused {
            true => json!({"type": "refusal", "refusal": text_block}),
            false => json!({"type": "output_text", "annotations": [{"at": 1}], "text": text_block}),
        });
    let phase = prop::option::of(prop_oneof![Just("commentary"), Just("final_answer")]);
    let summary =
        any_text().prop_map(|text_block| json!({"type": "summary_text", "text": text_block}));
    prop_oneof![
        (prop::collection::vec(part, 1..3), phase).prop_map(|(content, phase)| {
            let mut item = json!({
                "type": "message", "role": "assistant", "status": "completed", "content": content
            });
            if let Some(phase) = phase {
                item["phase"] = json!(phase);
            }
            item
        }),
        (prop::collection::vec(summary, 0..3), any_text()).prop_map(|(summary, secret)| json!({
            "type": "reasoning", "summary": summary, "encrypted_content": secret
        })),
        (any_text(), prop::bool::ANY).prop_map(|(text_block, spaced)| {
            let object = json!({"p": text_block}).to_string();
            let arguments = if spaced { object.replace("{\"p\":", "{ \"p\": ") } else { object };
            json!({"type": "function_call", "name": "read", "arguments": arguments})
        }),
        any_text().prop_map(|text_block| json!({
            "type": "web_search_call", "status": "completed", "action": {"query": text_block}
        })),
    ]
}

/// Items with an id each; a reasoning item at the end would have no item after it.
fn any_output() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(any_item(), 1..6).prop_map(|mut items| {
        for (index, item) in items.iter_mut().enumerate() {
            item["id"] = json!(format!("item_{index}"));
            if item["type"] == "function_call" {
                item["call_id"] = json!(format!("call_{index}"));
            }
        }
        items
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_decoded_answer_is_sent_back_whole(output in any_output(), with_deltas in any::<bool>()) {
        let (decoded, outcome) = replay(&stream_of(&output, with_deltas));
        prop_assert!(outcome.is_ok(), "{outcome:?}");
        let sent = items(&[message(Role::Assistant, decoded.blocks)]);
        let expected: Vec<Value> = output
            .into_iter()
            .map(|mut item| {
                // The API accepts no id of an item that it has not stored, and needs none for a call.
                if item["type"] == "reasoning" || item["type"] == "function_call" {
                    item.as_object_mut().unwrap().remove("id");
                }
                item
            })
            .collect();
        prop_assert_eq!(sent, expected);
    }

    #[test]
    fn chunks_change_nothing(
        output in any_output(),
        with_deltas in any::<bool>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let events = stream_of(&output, with_deltas);
        let stream: String = events.iter().map(|json| format!("data: {json}\r\n\r\n")).collect();
        let mut cut_points: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
        cut_points.sort_unstable();
        let mut chunks = Vec::new();
        let mut start = 0;
        for cut_point in cut_points {
            chunks.push(&stream.as_bytes()[start..cut_point]);
            start = cut_point;
        }
        chunks.push(&stream.as_bytes()[start..]);
        prop_assert_eq!(replay_bytes(&chunks), replay(&events));
    }

    #[test]
    fn no_bytes_panic_the_decoder(data in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut sink = Accumulator::new();
        let mut decoder = ResponsesWire::default().decoder();
        for name in ["", "error", "response.completed", "response.output_item.done"] {
            let _ = decoder.event(name, &data, &mut sink);
        }
        let _ = decoder.unary(&data, &mut sink);
    }
}

#[test]
fn pieces_are_shared_and_not_copied() {
    let piece = Bytes::from_static(b"{\"type\":\"message\"}");
    let request = ModelRequest { messages: vec![piece.clone(), piece.clone()], ..request() };
    let pieces = ResponsesWire::new(true).body(&request);
    let shared = pieces.iter().filter(|it| it.as_ptr() == piece.as_ptr()).count();
    assert_eq!(shared, 2);
}
