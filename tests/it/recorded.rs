//! Recorded exchanges and their expected content: reading, replaying and comparing.
//!
//! Independent of the API: every decoder is compared with the same `expected.json`, and differences between APIs are data
//! in `recordings`. It must never copy a recording into the project.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base::config::Environment;
use model::{Api, Block, FailureKind};
use provider::{
    Completion, Decoder, Failure, Flow, FrameParser, Framing, ModelRequest, ProviderSettings,
    SseParser, Stop, StreamReader, Wire, parse_providers, wire_of,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use turn::{Accumulated, Accumulator};

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
    streaming: bool,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, String>,
}

impl Case {
    /// Whether the body is a stream: some servers answer with JSON even if a stream was requested.
    pub(crate) fn is_stream(&self) -> bool {
        let content_type = self.meta.headers.get("content-type");
        self.meta.streaming && content_type.is_none_or(|kind| kind.contains("stream"))
    }

    /// Whether its events contradict each other.
    pub(crate) fn is_ambiguous(&self) -> bool {
        !self.expected.ambiguous.is_empty()
    }

    /// Whether the API streams arguments as text, which must be decoded byte for byte.
    fn is_text_of_arguments(&self) -> bool {
        self.is_stream() && !self.id.starts_with("google--")
    }
}

/// `expected.json`, without fields that the comparison does not need.
#[derive(Deserialize)]
pub(crate) struct Expected {
    pub(crate) complete: bool,
    text: String,
    reasoning: String,
    text_parts: Vec<String>,
    reasoning_parts: Vec<String>,
    #[serde(default)]
    refusal: String,
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

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct ExpectedUsage {
    input_uncached: Option<i64>,
    cache_read: Option<i64>,
    cache_write: Option<i64>,
    output_total: Option<i64>,
    reasoning: Option<i64>,
    #[serde(default)]
    tool_use_prompt: Option<i64>,
}

impl ExpectedUsage {
    /// Tokens of provider-run tools in the prompt are input (docs/rules/wire/usage.md#usage-mapping); the recordings count them
    /// separately.
    fn with_tools(self) -> Self {
        let input_uncached = match (self.input_uncached, self.tool_use_prompt) {
            (Some(input), Some(tools)) => Some(input + tools),
            (input, _) => input,
        };
        Self { input_uncached, tool_use_prompt: None, ..self }
    }
}

#[derive(Deserialize)]
struct ExpectedError {
    class: String,
}

/// The outcome of a replay.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) accumulated: Accumulated,
    pub(crate) result: Result<Completion, Failure>,
}

/// The wire of an API, created from options; `None` while the engine has none.
pub(crate) fn wire(api: Api) -> Option<Box<dyn Wire>> {
    let options =
        format!(r#"{{"test":{{"api":"{}","baseUrl":"http://127.0.0.1:9"}}}}"#, api.as_str());
    let options: &RawValue = serde_json::from_str(&options).unwrap();
    let set = parse_providers(Some(options), None, &Environment::fixed([])).unwrap();
    match set.providers.into_values().next() {
        Some(ProviderSettings::Http { api, settings, .. }) => wire_of(api, &settings),
        Some(ProviderSettings::Scripted(_)) | None => None,
    }
}

/// The project's own cases of one API and, if they are on this machine, the recordings.
pub(crate) fn cases(folder: &str) -> Vec<Case> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
    let mut cases = cases_at(&own).unwrap_or_default();
    match cases_at(&recordings(folder)) {
        Ok(recorded) => cases.extend(recorded),
        Err(error) => {
            let folder = recordings(folder);
            eprintln!("skipped the recordings: `{}`: {error}", folder.display());
        }
    }
    cases
}

/// The folder of the recordings of one API: below `NEXUS_FIXTURES`, else beside the project.
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
    let folders = std::fs::read_dir(folder)?.map(|entry| entry.unwrap().path());
    let is_case = |path: &PathBuf| path.join("response.meta.json").exists();
    let mut cases: Vec<Case> =
        folders.filter(is_case).map(|path| read_case(path.as_path())).collect();
    cases.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(cases)
}

/// Replays a stream in the given chunks, up to the end of the bytes.
pub(crate) fn replay<'a>(wire: &dyn Wire, chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    replay_by(wire.framing(), wire.decoder(), chunks)
}

fn replay_by<'a>(
    framing: Framing,
    decoder: Box<dyn Decoder>,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Outcome {
    let mut accumulator = Accumulator::new();
    let mut reader = StreamReader::framed(framing, decoder);
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

/// Replays a case with its recorded request.
pub(crate) fn replay_case(wire: &dyn Wire, case: &Case) -> Outcome {
    if case.is_stream() {
        replay(wire, [case.body.as_slice()])
    } else {
        replay_unary(wire, &case.body)
    }
}

/// Replays a case as the answer to a request without tools.
pub(crate) fn replay_unasked(wire: &dyn Wire, case: &Case) -> Outcome {
    let mut decoder = wire.decoder_for(&ModelRequest::default());
    if case.is_stream() {
        return replay_by(wire.framing(), decoder, [case.body.as_slice()]);
    }
    let mut accumulator = Accumulator::new();
    let result = decoder.unary(&case.body, &mut accumulator);
    Outcome { accumulated: accumulator.finish(), result }
}

/// One event of a recorded stream: its end (blank line included) and its data.
pub(crate) struct Event {
    pub(crate) end: usize,
    pub(crate) name: String,
    pub(crate) data: Vec<u8>,
}

/// The events of a stream; the last one may end with the body instead of a blank line.
pub(crate) fn events(framing: Framing, body: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut sse = SseParser::new();
    let mut frames = FrameParser::new();
    for (offset, byte) in body.iter().enumerate() {
        let byte = std::slice::from_ref(byte);
        let mut event = |name: &str, data: &[u8]| {
            let name = name.to_owned();
            events.push(Event { end: offset + 1, name, data: data.to_vec() });
            Ok(Flow::More)
        };
        let seen = match framing {
            Framing::EventSource => sse.feed(byte, &mut event),
            Framing::AwsEventStream => frames.feed(byte, &mut |frame| event("", frame.payload)),
        };
        assert_eq!(seen, Ok(Flow::More));
    }
    let open = sse.finish();
    events.extend(open.map(|open| Event { end: body.len(), name: open.name, data: open.data }));
    events
}

/// The offsets after every event of a stream, at which a connection may end between two events.
pub(crate) fn event_ends(body: &[u8]) -> Vec<usize> {
    let is_whole = |end: &usize| body[..*end].ends_with(b"\n") || body[..*end].ends_with(b"\r");
    events(Framing::EventSource, body).iter().map(|event| event.end).filter(is_whole).collect()
}

/// The calls that may be run: those with a closed block.
pub(crate) fn complete_calls(accumulated: &Accumulated) -> Vec<&Block> {
    let is_complete = |block: &&Block| matches!(block, Block::ToolCall { incomplete: false, .. });
    accumulated.blocks.iter().filter(is_complete).collect()
}

/// Every difference between the decoded and the expected content, by its field; empty where they agree.
pub(crate) fn differences(api: Api, case: &Case, outcome: &Outcome) -> Vec<(&'static str, String)> {
    let expected = &case.expected;
    let found = Found::of(api, &outcome.accumulated);
    let mut out = Differences { ambiguous: &expected.ambiguous, found: Vec::new() };

    // A refusal, or a filtered answer, is an answer here, as its stop shows
    // (docs/design/runs.md#is-a-refusal-an-answer-or-an-error).
    out.compare(
        "complete",
        &(expected.complete && expected.error.is_none()),
        &outcome.result.is_ok(),
    );
    // A refusal is shown as text.
    out.compare("text", &(expected.text.clone() + &expected.refusal), &found.text_parts.concat());
    if !is_grouping(&found.reasoning_parts, &expected.reasoning_parts) {
        out.compare("reasoning", &expected.reasoning, &found.reasoning_parts.concat());
    }
    if api == Api::AnthropicMessages {
        out.compare("text", &expected.text_parts, &found.text_parts);
        out.compare("reasoning", &expected.reasoning_parts, &found.reasoning_parts);
        out.compare("server_tools", &expected.server_tools, &found.server_tools);
    }
    out.compare("tool_calls", &expected.tool_calls, &found.calls_as_emitted(case));
    out.compare("opaque", &expected.opaque, &found.opaque);
    if expected.model.is_some() {
        out.compare("model", &expected.model, &outcome.accumulated.model);
    }
    let id = |recorded: &Option<String>| recorded.clone().unwrap_or_default();
    out.compare("response_id", &id(&expected.response_id), &id(&outcome.accumulated.response_id));

    let number = |recorded: u64| Some(i64::try_from(recorded).unwrap());
    let usage = outcome.accumulated.usage.map(|usage| ExpectedUsage {
        input_uncached: number(usage.input),
        cache_read: number(usage.cached),
        cache_write: number(usage.cache_write),
        output_total: number(usage.output),
        reasoning: usage.reasoning.and_then(number),
        tool_use_prompt: None,
    });
    out.compare("usage", &expected.usage.clone().map(ExpectedUsage::with_tools), &usage);

    match (&expected.error, &outcome.result) {
        (Some(error), Err(failure)) => {
            // Only the kind of an error body; the classifier decides the kind of a status.
            let recorded = case.meta.status == 200 || api == Api::AnthropicMessages;
            if recorded && !is_of_class(failure.kind, &error.class) {
                out.add("error", &error.class, failure);
            }
        }
        (Some(error), result) => out.add("error", &error.class, result),
        (None, Err(failure)) if expected.complete => out.add("error", &"none", failure),
        (None, Err(_)) => {}
        (None, Ok(completion)) => {
            if !expected.stop_agrees(api, completion.stop) {
                out.add("stop_reason", &expected.stop_reason, &completion.stop);
            }
            let stop_raw = expected.stop_reason_raw.clone().unwrap_or_default();
            out.compare("stop_reason_raw", &stop_raw, &completion.stop_raw);
        }
    }
    out.found
}

struct Differences<'a> {
    ambiguous: &'a [String],
    found: Vec<(&'static str, String)>,
}

impl Differences<'_> {
    fn compare<T: PartialEq + std::fmt::Debug>(
        &mut self,
        field: &'static str,
        expected: &T,
        found: &T,
    ) {
        if expected != found && !self.ambiguous.iter().any(|it| it == field) {
            self.add(field, expected, found);
        }
    }

    fn add(
        &mut self,
        field: &'static str,
        expected: &dyn std::fmt::Debug,
        found: &dyn std::fmt::Debug,
    ) {
        self.found.push((field, format!("expected {expected:?}, found {found:?}")));
    }
}

impl Expected {
    /// The stop of a recording's name, with the engine's decision where the corpus leaves it open.
    fn stop_agrees(&self, api: Api, stop: Stop) -> bool {
        match self.stop_reason.as_deref() {
            // Calls override a plain stop, and a missing one, of servers that are known to report that.
            Some("end_turn" | "other") | None
                if api == Api::OpenaiChat && !self.tool_calls.is_empty() =>
            {
                stop == Stop::ToolUse
            }
            Some("end_turn") if !self.refusal.is_empty() => stop == Stop::Refusal,
            None => stop == Stop::Other,
            Some(recorded) => recorded == stop_name(stop),
        }
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
    fn of(api: Api, accumulated: &Accumulated) -> Self {
        let mut found = Self::default();
        for block in &accumulated.blocks {
            match block {
                Block::Text { text, provider_data, .. } => {
                    push_unless_empty(&mut found.text_parts, text);
                    found.opaque_in(api, provider_data.as_deref());
                }
                Block::Thinking { thinking, signature, provider_data } => {
                    push_unless_empty(&mut found.reasoning_parts, thinking);
                    let kind = if api == Api::GoogleGenerativeAi {
                        "thought_signature"
                    } else {
                        "signature"
                    };
                    found.opaque.extend(signature.as_deref().map(|it| opaque(kind, it)));
                    found.opaque_in(api, provider_data.as_deref());
                }
                Block::RedactedThinking { data, .. } => {
                    found.opaque.push(opaque("redacted_thinking", data));
                }
                Block::ToolCall { id, name, arguments_json, provider_data, .. } => {
                    let text = if arguments_json.is_empty() { "{}" } else { arguments_json };
                    let parsed = serde_json::from_str::<Value>(text);
                    found.calls.push(ExpectedCall {
                        id: Some(id.clone()),
                        name: Some(name.clone()),
                        arguments_raw: Some(arguments_json.clone()),
                        arguments_valid: parsed.is_ok(),
                        arguments: parsed.unwrap_or_default(),
                    });
                    found.opaque_in(api, provider_data.as_deref());
                }
                Block::Opaque { raw_json } => {
                    found.server_tools += 1;
                    found.opaque_in(api, Some(raw_json));
                }
                Block::Image { .. } | Block::ToolResult { .. } => {
                    panic!("no model sends {block:?}")
                }
            }
        }
        found
    }

    /// The opaque values in a block's provider data.
    fn opaque_in(&mut self, api: Api, json: Option<&str>) {
        let Some(json) = json else { return };
        let value: Value = serde_json::from_str(json).unwrap();
        match api {
            Api::OpenaiChat => {
                for detail in value["reasoning_details"].as_array().into_iter().flatten() {
                    for kind in ["signature", "data"] {
                        let kind_here = format!("reasoning_details.{kind}");
                        let recorded =
                            detail[kind].as_str().filter(|recorded| !recorded.is_empty());
                        self.opaque.extend(recorded.map(|recorded| opaque(&kind_here, recorded)));
                    }
                }
            }
            Api::OpenaiResponses => {
                self.opaque.extend(
                    value["encrypted_content"].as_str().map(|it| opaque("encrypted_content", it)),
                );
            }
            Api::GoogleGenerativeAi => {
                self.opaque.extend(
                    value["thoughtSignature"].as_str().map(|it| opaque("thought_signature", it)),
                );
            }
            Api::AnthropicMessages | Api::BedrockConverse | Api::Scripted => {}
        }
    }

    /// The calls, with the recording's own text for arguments that were sent as a JSON value and not as text: there
    /// `arguments_raw` is the recorder's serialisation of it, and only the value can be compared. A call without an id has one
    /// of the engine.
    fn calls_as_emitted(&self, case: &Case) -> Vec<ExpectedCall> {
        let recorded = case.expected.tool_calls.iter().map(Some).chain(std::iter::repeat(None));
        let adopt = |(call, recorded): (&ExpectedCall, Option<&ExpectedCall>)| {
            let mut call = call.clone();
            if let Some(recorded) = recorded {
                if recorded.arguments == call.arguments && !case.is_text_of_arguments() {
                    call.arguments_raw.clone_from(&recorded.arguments_raw);
                }
                if recorded.id.is_none() {
                    assert_ne!(call.id.as_deref(), Some(""), "a call has an id");
                    call.id = None;
                }
            }
            call
        };
        self.calls.iter().zip(recorded).map(adopt).collect()
    }
}

/// Whether each block is one part or, in order, several joined by a blank line: the parts of a summary are one block.
fn is_grouping(blocks: &[String], parts: &[String]) -> bool {
    let mut rest = parts;
    for block in blocks {
        let taken = (1..=rest.len()).find(|count| rest[..*count].join("\n\n") == *block);
        let Some(taken) = taken else { return false };
        rest = &rest[taken..];
    }
    rest.is_empty()
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

/// Whether a failure has a recording's class by docs/rules/failover.md#classification: a too large body is an overflow, a
/// missing permission is a refused key.
fn is_of_class(kind: FailureKind, class: &str) -> bool {
    match class {
        "context_overflow" | "too_large" => kind == FailureKind::ContextOverflow,
        "rate_limit" => kind == FailureKind::RateLimit,
        "overloaded" => kind == FailureKind::Overloaded,
        "auth" | "permission" => matches!(kind, FailureKind::Auth | FailureKind::AuthPermanent),
        "billing" => kind == FailureKind::Billing,
        "not_found" => kind == FailureKind::ModelNotFound,
        "invalid_request" => matches!(kind, FailureKind::Format | FailureKind::ModelNotFound),
        "tool_use_failed" => kind == FailureKind::Format,
        "server" => kind == FailureKind::ServerError,
        "network" => kind == FailureKind::Network,
        "other" => true,
        _ => false,
    }
}
