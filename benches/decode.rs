//! How fast an Anthropic stream becomes blocks (event parser, decoder, accumulator), and messages become JSON.
//!
//! Run with `cargo bench --no-default-features --bench decode`. It must never read a socket or a recording.

use bytes::Bytes;
use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use nexus_agent_engine::model::{Block, Message, Role};
use nexus_agent_engine::provider::anthropic::AnthropicWire;
use nexus_agent_engine::provider::sse::{SseParser, StreamReader};
use nexus_agent_engine::provider::{Flow, Wire};
use nexus_agent_engine::turn::Accumulator;

/// What the socket gives at once.
const CHUNK: usize = 16 * 1024;

fn main() {
    divan::main();
}

/// A response of `count` deltas, each made by `delta`, in one block that begins with `block`.
fn response(block: &str, count: usize, delta: impl Fn(usize) -> String) -> (String, usize) {
    let event =
        |kind: &str, rest: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n");
    let mut out = event(
        "message_start",
        r#","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":12,"output_tokens":1}}"#,
    );
    out += &event("content_block_start", &format!(r#","index":0,"content_block":{block}"#));
    for at in 0..count {
        let rest = format!(r#","index":0,"delta":{{{}}}"#, delta(at));
        out += &event("content_block_delta", &rest);
    }
    out += &event("content_block_stop", r#","index":0"#);
    out += &event(
        "message_delta",
        r#","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}"#,
    );
    out += &event("message_stop", "");
    (out, count + 5)
}

fn text_response() -> (String, usize) {
    let words = [" the", " engine", ",", " reads", "\\n", " bytes", " once", "."];
    response(r#"{"type":"text","text":""}"#, 20_000, |at| {
        let word = words.get(at % words.len()).copied().unwrap_or_default();
        format!(r#""type":"text_delta","text":"{word}""#)
    })
}

/// 200 KB of arguments in fragments of 10 bytes.
fn tool_response() -> (String, usize) {
    response(r#"{"type":"tool_use","id":"t","name":"write","input":{}}"#, 20_000, |at| {
        let json = if at == 0 { "{\\\"p\\\": \\\"x" } else { "0123456789" };
        format!(r#""type":"input_json_delta","partial_json":"{json}""#)
    })
}

fn read(stream: &str) -> Accumulator {
    let mut accumulator = Accumulator::new();
    let mut reader = StreamReader::new(AnthropicWire.decoder());
    for chunk in stream.as_bytes().chunks(CHUNK) {
        if reader.feed(chunk, &mut accumulator) != Ok(Flow::More) {
            break;
        }
    }
    assert!(reader.end(&mut accumulator).is_ok(), "the response is whole");
    accumulator
}

fn bench_read(bencher: Bencher<'_, '_>, (stream, events): (String, usize)) {
    bencher
        .counter(BytesCount::new(stream.len()))
        .counter(ItemsCount::new(events))
        .bench_local(|| read(black_box(&stream)).finish());
}

#[divan::bench]
fn text_to_blocks(bencher: Bencher<'_, '_>) {
    bench_read(bencher, text_response());
}

#[divan::bench]
fn arguments_to_blocks(bencher: Bencher<'_, '_>) {
    bench_read(bencher, tool_response());
}

#[divan::bench]
fn text_to_events(bencher: Bencher<'_, '_>) {
    let (stream, events) = text_response();
    bencher.counter(BytesCount::new(stream.len())).counter(ItemsCount::new(events)).bench_local(
        || {
            let mut parser = SseParser::new();
            let mut seen = 0_usize;
            for chunk in stream.as_bytes().chunks(CHUNK) {
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
    let encode = || AnthropicWire.encode_messages(black_box(&history));
    let encoded: Bytes = encode();
    bencher
        .counter(BytesCount::new(encoded.len()))
        .counter(ItemsCount::new(history.len()))
        .bench_local(encode);
}
