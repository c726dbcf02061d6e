//! Recorded exchanges and what a client should have understood of them: reading, replaying and comparing.
//!
//! Neutral of the API: every decoder is held to the same `expected.json`. It must never copy a recording into the
//! project.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use nexus_agent_engine::model::{Block, FailureKind};
use nexus_agent_engine::provider::sse::{SseParser, StreamReader};
use nexus_agent_engine::provider::{Completion, Failure, Flow, Stop, Wire};
use nexus_agent_engine::turn::{Accumulated, Accumulator};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// One recorded response.
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) meta: Meta,
    pub(crate) body: Vec<u8>,
    pub(crate) expected: Expected,
}

#[derive(Deserialize)]
pub(crate) struct Meta {
    pub(crate) status: u16,
    pub(crate) streaming: bool,
}

/// `expected.json`; what the comparison does not need is left out.
#[derive(Deserialize)]
pub(crate) struct Expected {
    pub(crate) complete: bool,
    text: String,
    reasoning: String,
    text_parts: Vec<String>,
    reasoning_parts: Vec<String>,
    tool_calls: Vec<ExpectedCall>,
    server_tools: usize,
    opaque: Vec<ExpectedOpaque>,
    stop_reason: Option<String>,
    stop_reason_raw: Option<String>,
    usage: Option<ExpectedUsage>,
    error: Option<ExpectedError>,
    model: Option<String>,
    response_id: Option<String>,
    ambiguous: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct ExpectedCall {
    id: Option<String>,
    name: Option<String>,
    arguments_raw: Option<String>,
    arguments: Value,
    arguments_valid: bool,
}

#[derive(Debug, PartialEq, Deserialize)]
struct ExpectedOpaque {
    kind: String,
    length: usize,
    sha256: String,
}

#[derive(Debug, PartialEq, Deserialize)]
struct ExpectedUsage {
    input_uncached: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    output_total: Option<u64>,
    reasoning: Option<u64>,
}

#[derive(Deserialize)]
struct ExpectedError {
    class: String,
}

/// What a replay came to.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) accumulated: Accumulated,
    pub(crate) result: Result<Completion, Failure>,
}

/// The project's own cases of one API and, where that folder is on this machine, the recordings.
pub(crate) fn cases(folder: &str) -> Vec<Case> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
    let mut cases = cases_at(&own).unwrap();
    match cases_at(&recordings(folder)) {
        Ok(recorded) => cases.extend(recorded),
        Err(error) => {
            let folder = recordings(folder);
            eprintln!("skipped the recordings: `{}`: {error}", folder.display());
        }
    }
    cases
}

/// Where the recordings of one API are: below `NEXUS_FIXTURES`, else beside the project.
#[expect(clippy::disallowed_methods, reason = "a test finds its data through the environment")]
fn recordings(folder: &str) -> PathBuf {
    let root = std::env::var_os("NEXUS_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/fixtures"),
        PathBuf::from,
    );
    root.join("recorded/cases").join(folder)
}

fn cases_at(folder: &Path) -> std::io::Result<Vec<Case>> {
    let read_case = |folder: &Path| {
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        Case {
            id: folder.file_name().unwrap().to_string_lossy().into_owned(),
            meta: serde_json::from_slice(&read("response.meta.json")).unwrap(),
            body: read("response.body"),
            expected: serde_json::from_slice(&read("expected.json")).unwrap(),
        }
    };
    let mut cases: Vec<Case> =
        std::fs::read_dir(folder)?.map(|entry| read_case(&entry.unwrap().path())).collect();
    cases.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(cases)
}

/// Replays a stream in the given chunks, up to the end of the bytes.
pub(crate) fn replay<'a>(wire: &dyn Wire, chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut accumulator = Accumulator::new();
    let mut reader = StreamReader::new(wire.decoder());
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

/// Replays a body that is not a stream.
pub(crate) fn replay_unary(wire: &dyn Wire, body: &[u8]) -> Outcome {
    let mut accumulator = Accumulator::new();
    let result = wire.decoder().unary(body, &mut accumulator);
    Outcome { accumulated: accumulator.finish(), result }
}

/// Replays a case as it was recorded.
pub(crate) fn replay_case(wire: &dyn Wire, case: &Case) -> Outcome {
    if case.meta.streaming {
        replay(wire, [case.body.as_slice()])
    } else {
        replay_unary(wire, &case.body)
    }
}

/// The offsets behind every event of a stream: where a connection may end between two events.
pub(crate) fn event_ends(body: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut parser = SseParser::new();
    for (offset, byte) in body.iter().enumerate() {
        let seen = parser.feed(std::slice::from_ref(byte), &mut |_, _| {
            ends.push(offset + 1);
            Ok(Flow::More)
        });
        assert_eq!(seen, Ok(Flow::More));
    }
    ends
}

/// The calls that may be run: those whose block closed.
pub(crate) fn complete_calls(accumulated: &Accumulated) -> Vec<&Block> {
    let is_complete = |block: &&Block| matches!(block, Block::ToolCall { incomplete: false, .. });
    accumulated.blocks.iter().filter(is_complete).collect()
}

/// Every difference between what was understood and what should have been, one per line; empty where they agree.
pub(crate) fn differences(case: &Case, outcome: &Outcome) -> String {
    let expected = &case.expected;
    let found = Found::of(&outcome.accumulated);
    let mut out = Differences { ambiguous: &expected.ambiguous, text: String::new() };

    out.compare("complete", &expected.complete, &outcome.result.is_ok());
    out.compare("text", &expected.text, &found.text_parts.concat());
    out.compare("text", &expected.text_parts, &found.text_parts);
    out.compare("reasoning", &expected.reasoning, &found.reasoning_parts.concat());
    out.compare("reasoning", &expected.reasoning_parts, &found.reasoning_parts);
    out.compare("tool_calls", &expected.tool_calls, &found.calls_as_told(case));
    out.compare("server_tools", &expected.server_tools, &found.server_tools);
    out.compare("opaque", &expected.opaque, &found.opaque);
    out.compare("model", &expected.model, &outcome.accumulated.model);
    out.compare("response_id", &expected.response_id, &outcome.accumulated.response_id);

    let usage = outcome.accumulated.usage.map(|usage| ExpectedUsage {
        input_uncached: Some(usage.input),
        cache_read: Some(usage.cached),
        cache_write: Some(usage.cache_write),
        output_total: Some(usage.output),
        reasoning: usage.reasoning,
    });
    out.compare("usage", &expected.usage, &usage);

    let completion = outcome.result.as_ref().ok();
    let stop = completion.map(|completion| stop_name(completion.stop).to_owned());
    out.compare("stop_reason", &expected.stop_reason, &stop);
    let stop_raw = completion.map(|completion| completion.stop_raw.clone());
    out.compare("stop_reason_raw", &expected.stop_reason_raw, &stop_raw);

    match (&expected.error, &outcome.result) {
        (Some(error), Err(failure)) if is_of_class(failure.kind, &error.class) => {}
        (Some(error), result) => out.add("error", &error.class, result),
        (None, Err(failure)) if expected.complete => out.add("error", &"none", failure),
        (None, _) => {}
    }
    out.text
}

struct Differences<'a> {
    ambiguous: &'a [String],
    text: String,
}

impl Differences<'_> {
    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, field: &str, expected: &T, found: &T) {
        if expected != found && !self.ambiguous.iter().any(|it| it == field) {
            self.add(field, expected, found);
        }
    }

    fn add(&mut self, field: &str, expected: &dyn std::fmt::Debug, found: &dyn std::fmt::Debug) {
        writeln!(self.text, "  {field}: expected {expected:?}, found {found:?}").unwrap();
    }
}

#[derive(Default)]
struct Found {
    text_parts: Vec<String>,
    reasoning_parts: Vec<String>,
    calls: Vec<ExpectedCall>,
    opaque: Vec<ExpectedOpaque>,
    server_tools: usize,
}

impl Found {
    fn of(accumulated: &Accumulated) -> Self {
        let mut found = Self::default();
        for block in &accumulated.blocks {
            match block {
                Block::Text { text, .. } => push_unless_empty(&mut found.text_parts, text),
                Block::Thinking { thinking, signature, .. } => {
                    push_unless_empty(&mut found.reasoning_parts, thinking);
                    found.opaque.extend(signature.as_deref().map(|it| opaque("signature", it)));
                }
                Block::RedactedThinking { data } => {
                    found.opaque.push(opaque("redacted_thinking", data));
                }
                Block::ToolCall { id, name, arguments_json, .. } => {
                    let text = if arguments_json.is_empty() { "{}" } else { arguments_json };
                    let parsed = serde_json::from_str::<Value>(text);
                    found.calls.push(ExpectedCall {
                        id: Some(id.clone()),
                        name: Some(name.clone()),
                        arguments_raw: Some(arguments_json.clone()),
                        arguments_valid: parsed.is_ok(),
                        arguments: parsed.unwrap_or_default(),
                    });
                }
                Block::Opaque { raw_json } => {
                    let block: Value = serde_json::from_str(raw_json).unwrap();
                    assert!(block["type"].is_string(), "an opaque block keeps its type");
                    found.server_tools += 1;
                }
                Block::Image { .. } | Block::ToolResult { .. } => {
                    panic!("no model sends {block:?}")
                }
            }
        }
        found
    }
}

impl Found {
    /// The calls, with the recording's own text for arguments that came as a JSON value and not as text: there
    /// `arguments_raw` is the recorder's serialisation of it, and only the value can be compared.
    fn calls_as_told(&self, case: &Case) -> Vec<ExpectedCall> {
        let told = case.expected.tool_calls.iter().map(Some).chain(std::iter::repeat(None));
        let adopt = |(call, told): (&ExpectedCall, Option<&ExpectedCall>)| match told {
            Some(told) if !case.meta.streaming && told.arguments == call.arguments => {
                ExpectedCall { arguments_raw: told.arguments_raw.clone(), ..call.clone() }
            }
            _ => call.clone(),
        };
        self.calls.iter().zip(told).map(adopt).collect()
    }
}

fn push_unless_empty(parts: &mut Vec<String>, text: &str) {
    if !text.is_empty() {
        parts.push(text.to_owned());
    }
}

fn opaque(kind: &str, value: &str) -> ExpectedOpaque {
    let sha256 = Sha256::digest(value).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    });
    ExpectedOpaque { kind: kind.to_owned(), length: value.chars().count(), sha256 }
}

fn stop_name(stop: Stop) -> &'static str {
    match stop {
        Stop::EndTurn => "end_turn",
        Stop::StopSequence => "stop_sequence",
        Stop::ToolUse => "tool_use",
        Stop::MaxTokens => "max_tokens",
        Stop::ContextFull => "context_overflow",
        Stop::Refusal => "refusal",
        Stop::ContentFilter => "content_filter",
        Stop::Pause => "pause",
        Stop::MalformedToolCall => "malformed_tool_call",
        Stop::Error => "error",
        Stop::Other => "other",
    }
}

/// Whether a failure is of a recording's class, as RULES §2 reads it: a body that is too large is an overflow, a
/// permission that is missing a refused key.
fn is_of_class(kind: FailureKind, class: &str) -> bool {
    match class {
        "context_overflow" | "too_large" => kind == FailureKind::ContextOverflow,
        "rate_limit" => kind == FailureKind::RateLimit,
        "overloaded" => kind == FailureKind::Overloaded,
        "auth" | "permission" => matches!(kind, FailureKind::Auth | FailureKind::AuthPermanent),
        "billing" => kind == FailureKind::Billing,
        "not_found" => kind == FailureKind::ModelNotFound,
        "invalid_request" | "tool_use_failed" => kind == FailureKind::Format,
        "server" => kind == FailureKind::ServerError,
        "other" => true,
        _ => false,
    }
}
