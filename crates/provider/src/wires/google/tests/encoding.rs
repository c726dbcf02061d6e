//! Requests, compared as whole bodies, and answers that are sent back unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Decoded, DecodedBlock, stream};
use crate::wires::google::{GooglePath, GoogleWire};
use crate::{ModelRequest, Wire};
use model::samples::{message, result_of, user};
use model::{
    Block, ExecutionMode, Message, ReplayClass, RequestOptions, ResponseFormat, Role,
    ThinkingConfig, ThinkingEffort, ToolChoice, ToolDefinition,
};

fn call(id: &str, arguments: &str, signature: Option<&str>) -> Block {
    Block::ToolCall {
        id: id.to_owned(),
        name: "look".to_owned(),
        arguments_json: arguments.to_owned(),
        incomplete: false,
        provider_data: signature.map(|it| format!("{{\"thoughtSignature\":\"{it}\"}}")),
    }
}

fn result(id: &str, content: Vec<Block>, is_error: bool) -> Message {
    result_of("look", id, content, is_error)
}

fn image() -> Block {
    Block::Image { mime_type: "image/png".to_owned(), data: "aWI=".to_owned() }
}

fn text_of(messages: &[Message]) -> String {
    String::from_utf8(GoogleWire::default().encode_messages(messages).to_vec()).unwrap()
}

fn encoded(messages: &[Message]) -> Value {
    serde_json::from_str(&format!("[{}]", text_of(messages))).unwrap()
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn request(messages: &[Message], options: RequestOptions) -> ModelRequest {
    ModelRequest {
        model: "gemini-2.5-flash".to_owned(),
        system: "Be\n\"brief\".".to_owned(),
        tools: Arc::from([ToolDefinition {
            name: "look".to_owned(),
            description: "Looks.".to_owned(),
            parameters: raw(
                r##"{"type":"object", "$defs":{"a":{}},"anyOf":[{"$ref":"#/$defs/a"}]}"##,
            ),
            execution_mode: ExecutionMode::Sequential,
            timeout_ms: None,
            replay: ReplayClass::Unsafe,
            max_result_chars: None,
            retries: 0,
            permission: model::ToolPermission::Allow,
            external: false,
        }]),
        messages: vec![GoogleWire::default().encode_messages(messages)],
        max_tokens: 1_000,
        temperature: Some(0.5),
        options: Arc::new(options),
        ..ModelRequest::default()
    }
}

fn vertex() -> GoogleWire {
    GoogleWire::new(GooglePath::for_base("aiplatform.googleapis.com", ""))
}

fn body(wire: &GoogleWire, request: &ModelRequest) -> String {
    let text = String::from_utf8(wire.body(request).concat()).unwrap();
    serde_json::from_str::<Value>(&text).expect("a body is JSON");
    text
}

fn parsed(wire: &GoogleWire, request: &ModelRequest) -> Value {
    serde_json::from_str(&body(wire, request)).unwrap()
}

#[test]
fn a_body_is_its_head_the_conversation_and_its_settings() {
    let request = request(&[user("hi")], RequestOptions::default());
    assert_eq!(
        body(&GoogleWire::default(), &request),
        concat!(
            r#"{"systemInstruction":{"parts":[{"text":"Be\n\"brief\"."}]},"#,
            r#""tools":[{"functionDeclarations":[{"name":"look","description":"Looks.","#,
            r##""parametersJsonSchema":{"type":"object", "$defs":{"a":{}},"anyOf":[{"$ref":"#/$defs/a"}]}}]}],"##,
            r#""contents":[{"role":"user","parts":[{"text":"hi"}]}],"#,
            r#""generationConfig":{"maxOutputTokens":1000,"temperature":0.5}}"#,
        )
    );
    let path = GoogleWire::default().path(&request);
    assert_eq!(path, "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
}

#[test]
fn a_body_without_system_and_tools_has_neither() {
    let request = ModelRequest {
        system: " ".to_owned(),
        tools: Arc::from([]),
        temperature: None,
        ..request(
            &[user("hi")],
            RequestOptions { tool_choice: Some(ToolChoice::Required), ..RequestOptions::default() },
        )
    };
    assert_eq!(
        body(&GoogleWire::default(), &request),
        r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":1000}}"#
    );
}

#[test]
fn all_options_are_written() {
    let options = RequestOptions {
        tool_choice: Some(ToolChoice::Tool { name: "look".to_owned() }),
        parallel_tool_calls: Some(false),
        response_format: Some(ResponseFormat::JsonSchema {
            name: None,
            schema: raw(r#"{"type":"object"}"#),
            strict: Some(true),
        }),
        stop_sequences: vec!["END".to_owned(), "\n".to_owned()],
        metadata: BTreeMap::from([
            ("user_id".to_owned(), "u-1".to_owned()),
            ("Team".to_owned(), "x".to_owned()),
            ("note".to_owned(), "Two words".to_owned()),
        ]),
        provider_tools: vec![raw(r#"{"googleSearch":{}}"#), raw(r#"{"codeExecution": {}}"#)],
        ..RequestOptions::default()
    };
    let mut request = request(&[user("hi")], options);
    request.thinking =
        Some(ThinkingConfig { mode: None, budget_tokens: None, effort: Some(ThinkingEffort::Low) });
    let gemini = parsed(&GoogleWire::default(), &request);
    assert_eq!(gemini["tools"][1], json!({ "googleSearch": {} }));
    assert_eq!(gemini["tools"][2], json!({ "codeExecution": {} }));
    let calling = json!({ "mode": "ANY", "allowedFunctionNames": ["look"] });
    assert_eq!(
        gemini["toolConfig"],
        json!({ "functionCallingConfig": calling, "includeServerSideToolInvocations": true })
    );
    assert_eq!(
        gemini["generationConfig"],
        json!({
            "maxOutputTokens": 1000,
            "temperature": 0.5,
            "stopSequences": ["END", "\n"],
            "thinkingConfig": { "includeThoughts": true, "thinkingBudget": 2048 },
            "responseMimeType": "application/json",
            "responseJsonSchema": { "type": "object" },
        })
    );
    assert_eq!(gemini.get("labels"), None);
    let at_vertex = parsed(&vertex(), &request);
    assert_eq!(at_vertex["labels"], json!({ "user_id": "u-1" }));
    assert_eq!(at_vertex["toolConfig"], json!({ "functionCallingConfig": calling }));
}

#[test]
fn every_tool_choice_has_its_mode() {
    let mode = |choice| {
        let options = RequestOptions { tool_choice: choice, ..RequestOptions::default() };
        let body = parsed(&GoogleWire::default(), &request(&[user("hi")], options));
        body["toolConfig"]["functionCallingConfig"]["mode"].clone()
    };
    assert_eq!(mode(None), Value::Null);
    assert_eq!(mode(Some(ToolChoice::Auto)), "AUTO");
    assert_eq!(mode(Some(ToolChoice::None)), "NONE");
    assert_eq!(mode(Some(ToolChoice::Required)), "ANY");
    let json_object = RequestOptions {
        response_format: Some(ResponseFormat::JsonObject),
        ..RequestOptions::default()
    };
    let body = parsed(&GoogleWire::default(), &request(&[user("hi")], json_object));
    assert_eq!(body["generationConfig"]["responseMimeType"], "application/json");
    assert_eq!(body["generationConfig"].get("responseJsonSchema"), None);
}

#[test]
fn a_tool_loop_is_sent_back_with_every_part_in_order() {
    let thought = |signature: Option<&str>| Block::Thinking {
        thinking: "hm".to_owned(),
        signature: signature.map(str::to_owned),
        provider_data: None,
    };
    let signed = Block::Text {
        text: "b".to_owned(),
        provider_data: Some(r#"{"thoughtSignature":"s1"}"#.to_owned()),
        origin: None,
    };
    let messages = [
        message(Role::User, vec![Block::text("see"), image(), Block::text(" ")]),
        message(
            Role::Assistant,
            vec![
                thought(None),
                thought(Some("s0")),
                Block::text("a"),
                signed,
                Block::Opaque { raw_json: r#"{"executableCode": {"code":"1"}}"#.to_owned() },
                Block::Opaque { raw_json: r#"{"text":"","thoughtSignature":"s2"}"#.to_owned() },
                call("1", r#"{"n": 1.50}"#, Some("s3")),
                call("2", "[", None),
                Block::ToolCall {
                    id: "3".to_owned(),
                    name: "cut".to_owned(),
                    arguments_json: "{}".to_owned(),
                    incomplete: true,
                    provider_data: None,
                },
            ],
        ),
        result("1", vec![Block::text("one"), image(), Block::text("two")], false),
        result("2", vec![], true),
        user("and?"),
    ];
    assert_eq!(
        encoded(&messages),
        json!([
            { "role": "user", "parts": [
                { "text": "see" },
                { "inlineData": { "mimeType": "image/png", "data": "aWI=" } },
            ] },
            { "role": "model", "parts": [
                { "text": "hm", "thought": true, "thoughtSignature": "s0" },
                { "text": "a" },
                { "text": "b", "thoughtSignature": "s1" },
                { "executableCode": { "code": "1" } },
                { "text": "", "thoughtSignature": "s2" },
                { "functionCall": { "id": "1", "name": "look", "args": { "n": 1.50 } }, "thoughtSignature": "s3" },
                { "functionCall": { "id": "2", "name": "look", "args": {} } },
            ] },
            { "role": "user", "parts": [
                { "functionResponse": { "id": "1", "name": "look", "response": { "output": "one\ntwo" } } },
                { "functionResponse": { "id": "2", "name": "look", "response": { "error": "(no output)" } } },
                { "text": "Image from tool `look` (call `1`):" },
                { "inlineData": { "mimeType": "image/png", "data": "aWI=" } },
            ] },
            { "role": "user", "parts": [{ "text": "and?" }] },
        ])
    );
    assert!(
        text_of(&messages).contains(r#""args":{"n": 1.50}"#),
        "arguments go back byte for byte"
    );
}

#[test]
fn empty_messages_are_left_out() {
    let silent = message(Role::Assistant, vec![Block::text("")]);
    assert_eq!(text_of(std::slice::from_ref(&silent)), "");
    assert_eq!(encoded(&[user("a"), silent, user("b")]).as_array().unwrap().len(), 2);
    let lone = Block::Opaque { raw_json: r#"{"toolCall":"\ud83d"}"#.to_owned() };
    assert_eq!(
        text_of(&[message(Role::Assistant, vec![lone])]),
        r#"{"role":"model","parts":[{"toolCall":"\ufffd"}]}"#
    );
}

#[test]
fn a_call_begins_with_the_bytes_of_the_call_before() {
    let wire = GoogleWire::default();
    let mut before = String::new();
    let mut request = request(
        &[],
        RequestOptions { tool_choice: Some(ToolChoice::Auto), ..RequestOptions::default() },
    );
    request.messages = Vec::new();
    let steps = [
        vec![user("hi")],
        vec![message(Role::Assistant, vec![call("1", "{}", Some("s"))])],
        vec![result("1", vec![Block::text("x")], false)],
        vec![message(Role::Assistant, vec![Block::text("done")]), user("more")],
    ];
    for (step, messages) in steps.iter().enumerate() {
        request.messages.push(wire.encode_messages(messages));
        request.max_tokens += 1;
        let whole = body(&wire, &request);
        let contents = whole.rfind("],\"toolConfig\"").unwrap();
        let prefix = whole[..contents].to_owned();
        assert!(prefix.starts_with(&before), "call {step}");
        before = prefix;
    }
}

/// The blocks of a response, as the engine stores them.
fn stored_blocks(decoded: &Decoded) -> Vec<Block> {
    let data = |block: &DecodedBlock| (!block.data.is_empty()).then(|| block.data.clone());
    let stored = |block: &DecodedBlock| match block.kind {
        "text" => {
            Block::Text { text: block.text.clone(), provider_data: data(block), origin: None }
        }
        "thinking" => Block::Thinking {
            thinking: block.text.clone(),
            signature: data(block),
            provider_data: None,
        },
        "call" => Block::ToolCall {
            id: block.id.clone(),
            name: block.name.clone(),
            arguments_json: block.text.clone(),
            incomplete: !block.closed,
            provider_data: data(block),
        },
        _ => Block::Opaque { raw_json: block.text.clone() },
    };
    decoded.blocks.iter().map(stored).collect()
}

#[test]
fn an_answer_is_sent_back_in_its_own_parts() {
    let parts = json!([
        { "text": "a" },
        { "text": "b", "thoughtSignature": "s1" },
        { "text": "c", "thought": true, "thoughtSignature": "s2" },
        { "executableCode": { "language": "PYTHON", "code": "1" }, "thoughtSignature": "s3" },
        { "codeExecutionResult": { "outcome": "OUTCOME_OK" } },
        { "inlineData": { "mimeType": "image/png", "data": "aWI=" } },
        { "toolCall": { "toolType": "GOOGLE_SEARCH", "id": "t" }, "thoughtSignature": "s4" },
        { "toolResponse": { "id": "t" } },
        { "functionCall": { "id": "1", "name": "look", "args": { "b": 1, "a": [] } }, "thoughtSignature": "s5" },
        { "functionCall": { "id": "2", "name": "look", "args": {} } },
        { "text": "d" },
        { "text": "", "thoughtSignature": "s6" },
    ]);
    // As a whole, and with each part in a chunk of its own.
    let whole =
        json!({ "candidates": [{ "content": { "parts": parts }, "finishReason": "STOP" }] });
    let mut pieces: Vec<String> = parts
        .as_array()
        .unwrap()
        .iter()
        .map(|part| json!({ "candidates": [{ "content": { "parts": [part] } }] }).to_string())
        .collect();
    pieces.push(json!({ "candidates": [{ "finishReason": "STOP" }] }).to_string());
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    for decoded in [stream(&[&whole.to_string()]).0, stream(&pieces).0] {
        let again = encoded(&[message(Role::Assistant, stored_blocks(&decoded))]);
        assert_eq!(again, json!([{ "role": "model", "parts": parts }]));
    }
}
