//! Every decoder on its own cases and the real recordings: unchanged, in other framings, and cut at many points.
//!
//! Owns the differences between APIs, and every intended difference from a recording with its reason. It must never accept
//! a difference that is not listed here. With `NEXUS_EVERY_CUT=1` every stream is cut at every byte; otherwise small
//! streams are, and large ones are cut at a limited number of points.

use model::Api;
use provider::Failure;
use serde_json::Value;

use crate::recorded::{
    Case, Event, Outcome, cases, complete_calls, differences, events, replay, replay_case,
    replay_unasked, wire,
};

/// An intended difference from a recording: the end of its name, the field (`*`: all), and the reason.
type Otherwise = (&'static str, &'static str, &'static str);

const ANTHROPIC: [Otherwise; 1] = [(
    "spliced-message-start-1a288c",
    "*",
    "a second message begins inside the first: the recording expects the second, the engine joins no two answers and fails",
)];

const CHAT: [Otherwise; 5] = [
    (
        "avian-kimi-thinking-streaming-28642d",
        "response_id",
        "the id changes midway; the first one stays",
    ),
    (
        "openrouter-cache-all-settings-real-api-669cfd",
        "usage",
        "docs/rules/wire/usage.md#usage-mapping takes written tokens out of the input; the cost in the recording agrees",
    ),
    ("snowflake-thinking-da304f", "reasoning", "text that only `reasoning_details` has is shown"),
    ("hermes-4-405b-token-limit-c00e43", "*", "the choice holds an error 502 and no finish reason"),
    (
        "without-parameters-in-multi-turn-streaming-conversations-s1-223cb2",
        "usage",
        "more cached than prompt tokens: an input below zero is zero (docs/rules/wire/usage.md#usage-mapping)",
    ),
];

const RESPONSES: [Otherwise; 6] = [
    (
        "azure-reasoning-encrypted-content-1-d08fb4",
        "*",
        "two responses one after the other in one stream: ours ends at the first one's end",
    ),
    (
        "openai-reasoning-encrypted-content-1-8bf5cf",
        "*",
        "two responses one after the other in one stream: ours ends at the first one's end",
    ),
    (
        "web-search-tool-without-external-access-ef3785",
        "usage",
        "tokens written to the cache are no uncached input (docs/rules/wire/usage.md#usage-mapping); the total agrees with us",
    ),
    (
        "test-reused-tool-call-ids-stream-s2-d0d642",
        "usage",
        "tokens written to the cache are no uncached input (docs/rules/wire/usage.md#usage-mapping); the total agrees with us",
    ),
    (
        "test-background-mode-vcr-e9ce5d",
        "*",
        "a background response that is only queued has no answer; the recording takes it as an empty one",
    ),
    (
        "reasoning-roundtrip-streaming-dfd8a5",
        "*",
        "the recorder masked the id of each event anew: the first one stays, the recording takes the last",
    ),
];

const GOOGLE: [Otherwise; 1] = [(
    "vertexai-unary-success-empty-text-part-36d4bc",
    "*",
    "a stop without content is requested again and is no answer (docs/rules/wire/google.md#finish-reasons)",
)];

const BEDROCK: [Otherwise; 2] = [
    (
        "grounds-the-answer-with-web-citations-6dc6ab",
        "tool_calls",
        "`nova_grounding` is a tool of the provider: its block is stored whole and never run here",
    ),
    (
        "streams-grounded-turns-3ea398",
        "tool_calls",
        "`nova_grounding` is a tool of the provider: its block is stored whole and never run here",
    ),
];

/// Streams up to this many bytes are always cut at every byte.
const CUT_EVERYWHERE: usize = 3_000;
/// The maximum total bytes of the cuts of a larger stream.
const CUT_BUDGET: usize = 1 << 20;

/// Whether an event is the end that the protocol defines (docs/rules/wire/streams.md#end-of-file).
fn is_terminal(api: Api, event: &Event) -> bool {
    let data = event.data.trim_ascii();
    let name = event.name.as_str();
    if data == b"[DONE]" {
        return api == Api::OpenaiChat;
    }
    let Ok(event) = serde_json::from_slice::<Value>(data) else { return false };
    let is_given = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    // Some servers send the type in the event's name only.
    let kind = event["type"].as_str().unwrap_or(name);
    match api {
        Api::AnthropicMessages => kind == "message_stop",
        Api::OpenaiChat => event["choices"].as_array().into_iter().flatten().any(|choice| {
            choice["index"].as_u64().unwrap_or(0) == 0 && is_given(&choice["finish_reason"])
        }),
        Api::OpenaiResponses => {
            matches!(kind, "response.completed" | "response.incomplete" | "response.failed")
        }
        Api::GoogleGenerativeAi => {
            is_given(&event["candidates"][0]["finishReason"])
                || is_given(&event["promptFeedback"]["blockReason"])
        }
        Api::BedrockConverse => event.get("stopReason").is_some(),
        Api::Scripted => false,
    }
}

/// The end of the first terminal event: after its data, whatever lines follow. A binary frame ends with its checksum.
fn terminal_end(api: Api, body: &[u8], events: &[Event]) -> Option<usize> {
    let event = events.iter().find(|event| is_terminal(api, event))?;
    if api == Api::BedrockConverse {
        return Some(event.end);
    }
    body[..event.end].iter().rposition(|byte| matches!(byte, b'}' | b']')).map(|last| last + 1)
}

/// The offsets at which a stream is cut.
fn cuts(body: &[u8], events: &[Event], terminal: Option<usize>) -> Vec<usize> {
    if body.len() <= CUT_EVERYWHERE || every_cut() {
        return (0..body.len()).collect();
    }
    let around = |at: usize| [at.saturating_sub(1), at, at + 1];
    let mut cut_points: Vec<usize> = terminal.map(around).into_iter().flatten().collect();
    let mut state = u64::try_from(body.len()).unwrap();
    let mut next = |below: usize| {
        // Knuth's MMIX generator: the same points on every machine.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut bytes = 0;
    while bytes < CUT_BUDGET {
        cut_points.extend(around(events[next(events.len())].end));
        cut_points.push(next(body.len()));
        bytes += 2 * body.len();
    }
    cut_points.retain(|at| *at < body.len());
    cut_points.sort_unstable();
    cut_points.dedup();
    cut_points
}

#[expect(clippy::disallowed_methods, reason = "a test's own setting")]
fn every_cut() -> bool {
    std::env::var_os("NEXUS_EVERY_CUT").is_some()
}

fn is_truncation(failure: &Failure) -> bool {
    failure.code.as_deref() == Some("stream_truncated")
}

fn check_every_recording(api: Api, folder: &str, otherwise: &[Otherwise]) {
    let Some(wire) = wire(api) else { return println!("skipped: no wire for `{}`", api.as_str()) };
    let cases = cases(folder);
    let mut report = String::new();
    let mut agree = 0;
    let mut used = vec![false; otherwise.len()];
    for case in &cases {
        let found = differences(api, case, &replay_case(wire.as_ref(), case));
        let mut known = false;
        for (field, difference) in &found {
            let decided = otherwise
                .iter()
                .position(|(end, of, _)| case.id.ends_with(end) && (*of == "*" || of == field));
            match decided {
                Some(at) => {
                    used[at] = true;
                    known = true;
                    println!("{}: `{field}` differs on purpose: {}", case.id, otherwise[at].2);
                }
                None => {
                    report +=
                        &format!("{} ({}) {field}: {difference}\n", case.id, case.meta.status);
                }
            }
        }
        agree += usize::from(found.is_empty() && !known);
    }
    for (at, (end, field, _)) in otherwise.iter().enumerate() {
        let is_here = cases.iter().any(|case| case.id.ends_with(end));
        if is_here && !used[at] {
            report += &format!("{end} {field}: agrees, so it is no exception\n");
        }
    }
    println!("{agree} of {} cases of `{folder}` agree", cases.len());
    assert!(report.is_empty(), "{report}");
}

fn check_framings(api: Api, folder: &str) {
    let Some(wire) = wire(api) else { return };
    let by = |body: &[u8], size: usize| -> Outcome { replay(wire.as_ref(), body.chunks(size)) };
    let mut streams = 0;
    for case in cases(folder).into_iter().filter(Case::is_stream) {
        streams += 1;
        let whole = replay(wire.as_ref(), [case.body.as_slice()]);
        for size in [1, 2, 3, 7, 64, 1_000] {
            assert_eq!(by(&case.body, size), whole, "{} by {size}", case.id);
        }
        if api == Api::BedrockConverse {
            continue;
        }
        let text = String::from_utf8(case.body).unwrap().replace("\r\n", "\n");
        let with_comments = text.replace("\n\n", "\n: comment\nid: 7\nretry: 3\n\n: more\n\n");
        let framings = [
            ("CRLF", text.replace('\n', "\r\n")),
            ("CR", text.replace('\n', "\r")),
            ("byte order mark", format!("\u{feff}{text}")),
            ("comments", format!(": first\n\n{with_comments}")),
        ];
        for (framing, body) in framings {
            for size in [1, 5, usize::MAX] {
                let outcome = by(body.as_bytes(), size);
                assert_eq!(outcome, whole, "{} with {framing} by {size}", case.id);
            }
        }
    }
    println!("{streams} streams of `{folder}` in 11 sizes and framings");
}

fn a_cut_is_never_a_success(api: Api, folder: &str) {
    let Some(wire) = wire(api) else { return };
    let mut tried = 0;
    for case in cases(folder).into_iter().filter(Case::is_stream) {
        let body = case.body.as_slice();
        let events = events(wire.framing(), body);
        let whole = replay(wire.as_ref(), [body]);
        let all_calls = complete_calls(&whole.accumulated);
        let terminal = terminal_end(api, body, &events);
        for cut in cuts(body, &events, terminal) {
            tried += 1;
            let outcome = replay(wire.as_ref(), [&body[..cut]]);
            let at = format!("{} cut at {cut}", case.id);
            let calls = complete_calls(&outcome.accumulated);
            // No partial call is completed: the complete calls are those of the whole stream up to that point. Parallel ones may
            // complete in any order.
            assert!(calls.iter().all(|call| all_calls.contains(call)), "{at}: {calls:?}");
            match &outcome.result {
                Ok(_) => {
                    assert!(terminal.is_some_and(|terminal| cut >= terminal), "{at}: a success")
                }
                Err(failure) => assert!(
                    is_truncation(failure) || Err(failure) == whole.result.as_ref(),
                    "{at}: {failure:?}"
                ),
            }
        }
    }
    println!("{tried} cuts of `{folder}`");
}

/// A call of an unknown tool is emitted as well, at the end, if the provider sent no result.
fn check_calls_of_unknown_tools(api: Api, folder: &str) {
    let Some(wire) = wire(api) else { return };
    let mut calls = 0;
    for case in cases(folder) {
        let offered = replay_case(wire.as_ref(), &case);
        let unasked = replay_unasked(wire.as_ref(), &case);
        if offered.result.is_ok() {
            calls += complete_calls(&offered.accumulated).len();
            assert_eq!(unasked, offered, "{}", case.id);
        } else {
            assert_eq!(unasked.result, offered.result, "{}", case.id);
            assert_eq!(complete_calls(&unasked.accumulated).len(), 0, "{}", case.id);
        }
    }
    println!("{calls} calls of `{folder}` that nobody offered");
}

/// The same four tests for one API.
macro_rules! recordings {
    ($($name:ident $api:expr, $otherwise:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn every_recording_is_decoded_as_expected() {
                check_every_recording($api, stringify!($name), &$otherwise);
            }

            #[test]
            fn no_framing_changes_the_decoded_content() {
                check_framings($api, stringify!($name));
            }

            #[test]
            fn a_call_of_an_unknown_tool_is_emitted() {
                check_calls_of_unknown_tools($api, stringify!($name));
            }

            #[test]
            fn a_cut_is_never_a_success_and_completes_no_cut_call() {
                a_cut_is_never_a_success($api, stringify!($name));
            }
        }
    )*};
}

recordings! {
    anthropic Api::AnthropicMessages, ANTHROPIC;
    chat Api::OpenaiChat, CHAT;
    responses Api::OpenaiResponses, RESPONSES;
    google Api::GoogleGenerativeAi, GOOGLE;
    bedrock Api::BedrockConverse, BEDROCK;
}
