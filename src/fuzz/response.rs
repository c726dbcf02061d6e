//! Fuzz targets for bytes of a server: events, whole responses, errors.
//!
//! For any bytes: no panic, no effect of the chunking, and a well-formed outcome. It must never expect a certain outcome of
//! a certain input: the tests of the decoders do.

use std::sync::LazyLock;
use std::time::Duration;

use base::config::Environment;
use model::{Api, Block};
use provider::{
    Completion, Decoder, Failure, Flow, FrameParser, ModelRequest, ProviderSettings, SseParser,
    StreamReader, Wire, http_failure, parse_providers, wire_of,
};
use turn::{Accumulated, Accumulator};

/// The wire of every API, created from options for a server on this machine.
static WIRES: LazyLock<Vec<(Api, Box<dyn Wire>)>> = LazyLock::new(|| {
    let options = r#"{
        "a": {"api": "anthropic-messages", "baseUrl": "http://127.0.0.1:9"},
        "b": {"api": "openai-chat", "baseUrl": "http://127.0.0.1:9"},
        "c": {"api": "openai-responses", "baseUrl": "http://127.0.0.1:9"},
        "d": {"api": "google-generative-ai", "baseUrl": "http://127.0.0.1:9"},
        "e": {"api": "bedrock-converse", "baseUrl": "http://127.0.0.1:9"}
    }"#;
    let set = serde_json::from_str(options)
        .ok()
        .and_then(|options| parse_providers(Some(options), None, &Environment::fixed([])).ok());
    assert!(set.is_some(), "the options are right");
    let settings = set.into_iter().flat_map(|set| set.providers.into_values());
    settings
        .filter_map(|settings| match settings {
            ProviderSettings::Http { api, settings, .. } => {
                wire_of(api, &settings).map(|wire| (api, wire))
            }
            ProviderSettings::Scripted(_) => None,
        })
        .collect()
});

pub(super) fn wire(api: Api) -> Option<&'static dyn Wire> {
    WIRES.iter().find(|(known, _)| *known == api).map(|(_, wire)| wire.as_ref())
}

type Events = (Vec<(String, Vec<u8>)>, Result<Flow, Failure>);

fn events<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Events {
    let mut parser = SseParser::new();
    let mut events = Vec::new();
    let mut flow = Ok(Flow::More);
    for chunk in chunks {
        flow = parser.feed(chunk, &mut |name, data| {
            events.push((name.to_owned(), data.to_vec()));
            Ok(Flow::More)
        });
        if flow.is_err() {
            break;
        }
    }
    events.extend(parser.finish().map(|event| (event.name, event.data)));
    assert!(parser.finish().is_none(), "a stream ends once");
    (events, flow)
}

/// A stream of events: none has a line end in its name, and all of them together are no longer than the stream.
pub(super) fn sse_bytes(data: &[u8]) {
    let (events, flow) = events([data].into_iter());
    assert!(flow.is_ok(), "nothing here is too large");
    let mut bytes = 0;
    for (name, event) in &events {
        assert!(!name.contains(['\r', '\n']), "a name is a part of a line");
        assert!(!event.contains(&b'\r'), "a line end is not a part of a line");
        bytes += event.len();
    }
    assert!(bytes <= data.len(), "events are made of the bytes");
    // After a blank line the parser has no state.
    let twice = [b"\n\n".as_slice(), data].concat();
    if !data.starts_with(b"\xEF") {
        assert_eq!(self::events([twice.as_slice()].into_iter()), (events, flow));
    }
}

/// Any split of a stream gives the same events.
pub(super) fn sse_chunked(data: &[u8]) {
    let Some((sizes, body)) = data.split_at_checked(4) else { return };
    let whole = events([body].into_iter());
    assert_eq!(events(body.chunks(1)), whole);
    assert_eq!(events(pieces(sizes, body).into_iter()), whole);
}

/// Cuts `body` into pieces of changing sizes, some of them empty.
fn pieces<'a>(sizes: &[u8], body: &'a [u8]) -> Vec<&'a [u8]> {
    let mut rest = body;
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle().take(body.len() + sizes.len()) {
        let (piece, tail) = rest.split_at(usize::from(*size).min(rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    pieces.push(rest);
    pieces
}

type Frames = (Vec<Vec<u8>>, Result<Flow, Failure>);

fn frames<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Frames {
    let mut parser = FrameParser::new();
    let mut payloads = Vec::new();
    let mut flow = Ok(Flow::More);
    for chunk in chunks {
        flow = parser.feed(chunk, &mut |frame| {
            payloads.push(frame.payload.to_vec());
            Ok(Flow::More)
        });
        if flow.is_err() {
            break;
        }
    }
    (payloads, flow)
}

/// Binary frames of AWS's event stream: any split gives the same ones, and the same damage.
pub(super) fn eventstream_frames(data: &[u8]) {
    let Some((sizes, body)) = data.split_at_checked(4) else { return };
    let whole = frames([body].into_iter());
    assert_eq!(frames(body.chunks(1)), whole);
    assert_eq!(frames(pieces(sizes, body).into_iter()), whole);
    let bytes: usize = whole.0.iter().map(|payload| payload.len() + 16).sum();
    assert!(bytes <= body.len(), "each frame has its own bytes");
}

#[derive(Debug, PartialEq)]
struct Outcome {
    accumulated: Accumulated,
    result: Result<Completion, Failure>,
}

fn read<'a>(
    wire: &dyn Wire,
    decoder: Box<dyn Decoder>,
    chunks: impl Iterator<Item = &'a [u8]>,
) -> Outcome {
    let mut accumulator = Accumulator::new();
    let mut reader = StreamReader::framed(wire.framing(), decoder);
    let mut flow = Ok(Flow::More);
    for chunk in chunks {
        flow = reader.feed(chunk, &mut accumulator);
        if flow != Ok(Flow::More) {
            break;
        }
    }
    let result = flow.and_then(|_| reader.end(&mut accumulator));
    Outcome { accumulated: accumulator.finish(), result }
}

/// One response of an API: as a stream in any split, and as a whole body.
pub(super) fn reducer(api: Api, data: &[u8]) {
    let Some(wire) = wire(api) else { return };
    let Some((sizes, body)) = data.split_at_checked(4) else { return };
    // The second decoder is for a request without tools.
    let decoders: [&dyn Fn() -> Box<dyn Decoder>; 2] =
        [&|| wire.decoder(), &|| wire.decoder_for(&ModelRequest::default())];
    for decoder in decoders {
        let whole = read(wire, decoder(), [body].into_iter());
        check(&whole);
        let split = read(wire, decoder(), pieces(sizes, body).into_iter());
        assert_eq!(split, whole, "the split of a stream means nothing");

        let mut accumulator = Accumulator::new();
        let result = decoder().unary(body, &mut accumulator);
        check(&Outcome { accumulated: accumulator.finish(), result });
    }
}

/// Checks an outcome: blocks that the ledger reads back unchanged, valid JSON in its fields, and a failure with a short
/// message.
fn check(outcome: &Outcome) {
    let blocks = &outcome.accumulated.blocks;
    let stored = serde_json::to_string(blocks).unwrap_or_default();
    let read: Option<Vec<Block>> = serde_json::from_str(&stored).ok();
    assert_eq!(read.as_ref(), Some(blocks), "blocks are stored whole");
    for block in blocks {
        let json = match block {
            Block::Text { provider_data, .. }
            | Block::Thinking { provider_data, .. }
            | Block::ToolCall { provider_data, .. } => provider_data.as_deref(),
            Block::Opaque { raw_json } => Some(raw_json.as_str()),
            Block::Image { .. } | Block::RedactedThinking { .. } | Block::ToolResult { .. } => None,
        };
        if let Some(json) = json {
            let parsed = serde_json::from_str::<&serde_json::value::RawValue>(json);
            assert!(parsed.is_ok(), "`{json}` is stored as JSON");
        }
    }
    if let Err(failure) = &outcome.result {
        assert!(failure.message.chars().count() <= 1_000, "`{}`", failure.message);
        assert!(!failure.message.is_empty(), "a failure names what failed");
    }
}

/// An error response: a line for the API and the status, headers, a blank line, a body.
pub(super) fn retry_after(data: &[u8]) {
    let mut lines = data.splitn(2, |byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let rest = lines.next().unwrap_or_default();
    let status = first.trim().parse::<u16>().unwrap_or(429);
    let end = rest.windows(2).position(|pair| pair == b"\n\n").unwrap_or(rest.len());
    let (head, body) = rest.split_at(end);
    let head = String::from_utf8_lossy(head);
    let header = |name: &str| {
        let of = |line: &str| {
            let (key, value) = line.split_once(':')?;
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        head.lines().find_map(of)
    };
    let now_ms = 1_790_000_000_000;
    let content_type = header("content-type");
    for api in [Api::AnthropicMessages, Api::OpenaiChat] {
        let failure = http_failure(api, status, &header, content_type.as_deref(), body, now_ms);
        assert_eq!(failure.status, Some(status));
        assert!(failure.message.chars().count() <= 1_000, "`{}`", failure.message);
        // An accepted wait is within the range of a timer (docs/rules/failover.md#retry-hints).
        let longest = Duration::from_millis(1 << 31);
        assert!(failure.retry_after.is_none_or(|wait| wait <= longest), "{failure:?}");
    }
}
