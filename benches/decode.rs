//! The speed of decoding each API's stream to blocks (event parser, decoder, accumulator), and of encoding messages.
//!
//! Run with `cargo bench --no-default-features --bench decode`. It must never read a socket or a recording.

use base::config::Environment;
use bytes::Bytes;
use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use model::{Api, Block, Message, Role};
use provider::{
    AnthropicWire, Flow, ProviderSettings, SseParser, StreamReader, Wire, parse_providers, wire_of,
};
use serde_json::value::RawValue;
use turn::Accumulator;

/// The size of one read of the socket.
const CHUNK: usize = 16 * 1024;
/// How many deltas a response has.
const DELTAS: usize = 20_000;

const APIS: [&str; 5] = [
    "anthropic-messages",
    "openai-chat",
    "openai-responses",
    "google-generative-ai",
    "bedrock-converse",
];

fn main() {
    divan::main();
}

/// The wire of an API, created from options.
fn wire(api: &str) -> Option<Box<dyn Wire>> {
    let options = format!(r#"{{"test":{{"api":"{api}","baseUrl":"http://127.0.0.1:9"}}}}"#);
    let options: &RawValue = serde_json::from_str(&options).ok()?;
    let set = parse_providers(Some(options), None, &Environment::fixed([])).ok()?;
    match set.providers.into_values().next()? {
        ProviderSettings::Http { api, settings, .. } => wire_of(api, &settings),
        ProviderSettings::Scripted(_) => None,
    }
}

/// The content of a measured response.
#[derive(Clone, Copy, PartialEq)]
enum Content {
    /// Words.
    Text,
    /// 200 KB of one call's arguments in fragments of 10 bytes.
    Arguments,
}

impl Content {
    fn delta(self, at: usize) -> &'static str {
        let words = [" the", " engine", ",", " reads", "\\n", " bytes", " once", "."];
        match (self, at) {
            (Self::Text, _) => words.get(at % words.len()).copied().unwrap_or_default(),
            (Self::Arguments, 0) => r#"{\"p\": \"x"#,
            (Self::Arguments, _) if at + 1 == DELTAS => r#"\"}"#,
            (Self::Arguments, _) => "0123456789",
        }
    }
}

/// A response of one block, as its API streams it, with the number of its events.
fn response(api: Api, content: Content) -> (Vec<u8>, usize) {
    let mut out = Vec::new();
    let mut events = 0;
    let mut named = |kind: &str, rest: &str| {
        events += 1;
        let event = format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n");
        out.extend_from_slice(event.as_bytes());
    };
    let deltas = (0..DELTAS).map(|at| content.delta(at));
    match api {
        Api::AnthropicMessages => {
            named(
                "message_start",
                r#","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":12,"output_tokens":1}}"#,
            );
            let (block, kind, field) = match content {
                Content::Text => (r#"{"type":"text","text":""}"#, "text_delta", "text"),
                Content::Arguments => (
                    r#"{"type":"tool_use","id":"t","name":"write","input":{}}"#,
                    "input_json_delta",
                    "partial_json",
                ),
            };
            named("content_block_start", &format!(r#","index":0,"content_block":{block}"#));
            for delta in deltas {
                let rest = format!(r#","index":0,"delta":{{"type":"{kind}","{field}":"{delta}"}}"#);
                named("content_block_delta", &rest);
            }
            named("content_block_stop", r#","index":0"#);
            let stop = if content == Content::Text { "end_turn" } else { "tool_use" };
            named(
                "message_delta",
                &format!(r#","delta":{{"stop_reason":"{stop}"}},"usage":{{"output_tokens":7}}"#),
            );
            named("message_stop", "");
        }
        Api::OpenaiResponses => {
            named("response.created", r#","response":{"id":"resp_1","model":"gpt-5"}"#);
            let (item, done, kind) = match content {
                Content::Text => (
                    r#"{"id":"msg_1","type":"message","role":"assistant","content":[]}"#,
                    r#"{"id":"msg_1","type":"message","role":"assistant","content":[]}"#,
                    "response.output_text.delta",
                ),
                Content::Arguments => (
                    r#"{"id":"fc_1","type":"function_call","call_id":"c","name":"write","arguments":""}"#,
                    r#"{"id":"fc_1","type":"function_call","call_id":"c","name":"write"}"#,
                    "response.function_call_arguments.delta",
                ),
            };
            let added = format!(r#","sequence_number":1,"output_index":0,"item":{item}"#);
            named("response.output_item.added", &added);
            for (at, delta) in deltas.enumerate() {
                let rest = format!(
                    r#","sequence_number":{at},"item_id":"msg_1","output_index":0,"content_index":0,"delta":"{delta}""#
                );
                named(kind, &rest);
            }
            let done = format!(r#","sequence_number":2,"output_index":0,"item":{done}"#);
            named("response.output_item.done", &done);
            named(
                "response.completed",
                r#","response":{"id":"resp_1","status":"completed","usage":{"input_tokens":12,"output_tokens":7,"total_tokens":19}}"#,
            );
        }
        Api::OpenaiChat => {
            let mut chunk = |delta: &str, finish: &str| {
                events += 1;
                let chunk = format!(
                    r#"data: {{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{{"index":0,"delta":{{{delta}}},"finish_reason":{finish}}}]}}"#
                );
                out.extend_from_slice(chunk.as_bytes());
                out.extend_from_slice(b"\n\n");
            };
            if content == Content::Arguments {
                chunk(
                    r#""tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"write","arguments":""}}]"#,
                    "null",
                );
            }
            for delta in deltas {
                let delta = match content {
                    Content::Text => format!(r#""content":"{delta}""#),
                    Content::Arguments => {
                        format!(
                            r#""tool_calls":[{{"index":0,"function":{{"arguments":"{delta}"}}}}]"#
                        )
                    }
                };
                chunk(&delta, "null");
            }
            chunk("", r#""stop""#);
            out.extend_from_slice(b"data: [DONE]\n\n");
        }
        Api::GoogleGenerativeAi => {
            let mut chunk = |part: &str, finish: &str| {
                events += 1;
                let chunk = format!(
                    r#"data: {{"candidates":[{{"content":{{"parts":[{part}],"role":"model"}}{finish},"index":0}}],"usageMetadata":{{"promptTokenCount":12,"candidatesTokenCount":7,"totalTokenCount":19}},"modelVersion":"gemini-x","responseId":"r1"}}"#
                );
                out.extend_from_slice(chunk.as_bytes());
                out.extend_from_slice(b"\r\n\r\n");
            };
            if content == Content::Text {
                deltas.for_each(|delta| chunk(&format!(r#"{{"text":"{delta}"}}"#), ""));
            } else {
                // Arguments are whole in this API.
                let args = r#"{"p":"0123456789"}"#;
                let call = format!(r#"{{"functionCall":{{"name":"write","args":{args}}}}}"#);
                (0..DELTAS / 10).for_each(|_| chunk(&call, ""));
            }
            chunk(r#"{"text":""}"#, r#","finishReason":"STOP""#);
        }
        Api::BedrockConverse => {
            let mut event = |kind: &str, payload: &str| {
                events += 1;
                out.extend_from_slice(&frame(kind, payload.as_bytes()));
            };
            event("messageStart", r#"{"role":"assistant"}"#);
            if content == Content::Arguments {
                event(
                    "contentBlockStart",
                    r#"{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"t","name":"write"}}}"#,
                );
            }
            for delta in deltas {
                let delta = match content {
                    Content::Text => format!(r#"{{"text":"{delta}"}}"#),
                    Content::Arguments => format!(r#"{{"toolUse":{{"input":"{delta}"}}}}"#),
                };
                event(
                    "contentBlockDelta",
                    &format!(r#"{{"contentBlockIndex":0,"delta":{delta}}}"#),
                );
            }
            event("contentBlockStop", r#"{"contentBlockIndex":0}"#);
            event("messageStop", r#"{"stopReason":"end_turn"}"#);
            event("metadata", r#"{"usage":{"inputTokens":12,"outputTokens":7,"totalTokens":19}}"#);
        }
        Api::Scripted => {}
    }
    (out, events)
}

/// One frame of AWS's event stream.
fn frame(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut headers = Vec::new();
    for (name, value) in
        [(":event-type", kind), (":content-type", "application/json"), (":message-type", "event")]
    {
        headers.push(u8::try_from(name.len()).unwrap_or_default());
        headers.extend_from_slice(name.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&u16::try_from(value.len()).unwrap_or_default().to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or_default().to_be_bytes();
    let total = 16 + headers.len() + payload.len();
    let mut out = [length(total), length(headers.len())].concat();
    out.extend_from_slice(&crc32(&out).to_be_bytes());
    out.extend_from_slice(&headers);
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32(&out).to_be_bytes());
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

fn read(wire: &dyn Wire, stream: &[u8]) -> Accumulator {
    let mut accumulator = Accumulator::new();
    let mut reader = StreamReader::framed(wire.framing(), wire.decoder());
    for chunk in stream.chunks(CHUNK) {
        if reader.feed(chunk, &mut accumulator) != Ok(Flow::More) {
            break;
        }
    }
    assert!(reader.end(&mut accumulator).is_ok(), "the response is whole");
    accumulator
}

fn bench_read(bencher: Bencher<'_, '_>, api: &str, content: Content) {
    let Some(wire) = wire(api) else { return };
    let (stream, events) = response(wire.api(), content);
    bencher
        .counter(BytesCount::new(stream.len()))
        .counter(ItemsCount::new(events))
        .bench_local(|| read(wire.as_ref(), black_box(&stream)).finish());
}

#[divan::bench(args = APIS)]
fn text_to_blocks(bencher: Bencher<'_, '_>, api: &str) {
    bench_read(bencher, api, Content::Text);
}

#[divan::bench(args = APIS)]
fn arguments_to_blocks(bencher: Bencher<'_, '_>, api: &str) {
    bench_read(bencher, api, Content::Arguments);
}

#[divan::bench]
fn text_to_events(bencher: Bencher<'_, '_>) {
    let (stream, events) = response(Api::AnthropicMessages, Content::Text);
    bencher.counter(BytesCount::new(stream.len())).counter(ItemsCount::new(events)).bench_local(
        || {
            let mut parser = SseParser::new();
            let mut seen = 0_usize;
            for chunk in stream.chunks(CHUNK) {
                let flow = parser.feed(chunk, &mut |_, data| {
                    seen += data.len();
                    Ok(Flow::More)
                });
                assert_eq!(flow, Ok(Flow::More));
            }
            seen
        },
    );
}

/// One event of 8 MiB in chunks of 1 KiB: linear, or this takes minutes.
#[divan::bench(sample_count = 10)]
fn large_event_in_small_chunks(bencher: Bencher<'_, '_>) {
    let mut stream = b"data: ".to_vec();
    stream.resize(8 << 20, b'x');
    stream.extend_from_slice(b"\n\n");
    bencher.counter(BytesCount::new(stream.len())).bench_local(|| {
        let mut parser = SseParser::new();
        let mut seen = 0;
        for chunk in stream.chunks(1_024) {
            let flow = parser.feed(chunk, &mut |_, data| {
                seen += data.len();
                Ok(Flow::More)
            });
            assert_eq!(flow, Ok(Flow::More));
        }
        seen
    });
}

#[divan::bench]
fn messages_to_json(bencher: Bencher<'_, '_>) {
    let message = |role, blocks| Message {
        id: "01".to_owned(),
        role,
        blocks,
        sequence: 0,
        created_at: 0,
        provenance: None,
        provider_stop_reason: None,
    };
    let text = "The quick \"brown\" fox jumps over the lazy dog.\n".repeat(20);
    let history: Vec<Message> = (0..1_000)
        .flat_map(|_| {
            let call = Block::ToolCall {
                id: "toolu_1".to_owned(),
                name: "read".to_owned(),
                arguments_json: "{\"path\":\"src/lib.rs\"}".to_owned(),
                incomplete: false,
                provider_data: None,
            };
            let result = Block::ToolResult {
                tool_call_id: "toolu_1".to_owned(),
                tool_name: "read".to_owned(),
                content: vec![Block::text(text.clone())],
                is_error: false,
            };
            [
                message(Role::Assistant, vec![Block::text("Reading."), call]),
                message(Role::Tool, vec![result]),
            ]
        })
        .collect();
    let encode = || AnthropicWire::default().encode_messages(black_box(&history));
    let encoded: Bytes = encode();
    bencher
        .counter(BytesCount::new(encoded.len()))
        .counter(ItemsCount::new(history.len()))
        .bench_local(encode);
}
