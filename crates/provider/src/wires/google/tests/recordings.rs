//! Every recorded case of Gemini and Vertex, streaming, whole and failed, against its expected content.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Decoded, decode, unary};
use crate::classify::http_failure;
use crate::framing::sse::StreamReader;
use crate::recorded::{self, Case, Event};
use crate::{Api, Completion, Failure, Flow, GoogleWire, Stop, Wire};
use model::FailureKind;

/// Whether a stream has events; without `alt=sse` the API answers with a JSON array, which is read whole.
fn is_stream(case: &Case) -> bool {
    case.meta["streaming"].as_bool().unwrap()
        && !case.body.trim_ascii_start().starts_with(b"[")
        && !case.body.trim_ascii_start().starts_with(b"{")
}

fn feed(events: &[Event]) -> (Decoded, Result<Completion, Failure>) {
    decode(events.iter().map(|(name, data)| (name.as_str(), data.as_slice())))
}

fn replay(case: &Case) -> (Decoded, Result<Completion, Failure>) {
    if is_stream(case) { feed(&recorded::events(&case.body)) } else { unary(&case.body) }
}

/// Through the engine's own event parser, in the given chunks.
fn replay_bytes<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Decoded, Result<Completion, Failure>) {
    let mut decoded = Decoded::default();
    let mut reader = StreamReader::new(GoogleWire::default().decoder());
    for chunk in chunks {
        match reader.feed(chunk, &mut decoded) {
            Ok(Flow::More) => {}
            Ok(Flow::End) => break,
            Err(failure) => return (decoded, Err(failure)),
        }
    }
    let ended = reader.end(&mut decoded);
    (decoded, ended)
}

fn answered() -> Option<Vec<Case>> {
    let cases = recorded::cases("google")?;
    Some(cases.into_iter().filter(|case| case.status() == 200).collect())
}

fn streams() -> Option<Vec<Case>> {
    Some(answered()?.into_iter().filter(is_stream).collect())
}

/// The signatures, in order, by their digest.
fn opaque(decoded: &Decoded) -> Vec<Value> {
    let digest = |value: String| {
        let hex: String = Sha256::digest(&value).iter().map(|b| format!("{b:02x}")).collect();
        json!({"kind": "thought_signature", "length": value.chars().count(), "sha256": hex})
    };
    decoded.blocks.iter().filter_map(super::DecodedBlock::signature).map(digest).collect()
}

fn stop_name(stop: Stop) -> &'static str {
    match stop {
        Stop::EndTurn => "end_turn",
        Stop::ToolUse => "tool_use",
        Stop::MaxTokens => "max_tokens",
        Stop::ContentFilter => "content_filter",
        Stop::MalformedToolCall => "malformed_tool_call",
        Stop::Pause => "pause",
        Stop::Error => "error",
        Stop::Other => "other",
        Stop::StopSequence | Stop::ContextFull | Stop::Refusal => panic!("no such stop here"),
    }
}

fn differences(case: &Case, decoded: &Decoded, ended: &Result<Completion, Failure>) -> Vec<String> {
    let expected = &case.expected;
    let skipped =
        |field: &str| expected["ambiguous"].as_array().unwrap().iter().any(|name| name == field);
    let mut wrong = Vec::new();
    let mut check = |field: &str, ours: Value, theirs: Value| {
        if ours != theirs && !skipped(field) {
            wrong.push(format!("{field}: ours {ours}, recorded {theirs}"));
        }
    };
    check("text", decoded.joined("text").into(), expected["text"].clone());
    check("reasoning", decoded.joined("thinking").into(), expected["reasoning"].clone());
    let recorded = expected["tool_calls"].as_array().unwrap();
    let calls: Vec<Value> = decoded
        .of("call")
        .enumerate()
        .map(|(position, call)| {
            // If the API sent no id, the engine derived one.
            let given = recorded.get(position).is_some_and(|recorded| recorded["id"].is_string());
            let id = if given { call.id.as_str().into() } else { Value::Null };
            let arguments: Value = serde_json::from_str(&call.text).unwrap_or_default();
            json!([id, call.name, arguments])
        })
        .collect();
    let recorded: Vec<Value> =
        recorded.iter().map(|call| json!([call["id"], call["name"], call["arguments"]])).collect();
    check("tool_calls", calls.into(), recorded.into());
    check("opaque", opaque(decoded).into(), expected["opaque"].clone());
    let server_tools = decoded
        .of("opaque")
        .filter(|block| serde_json::from_str::<Value>(&block.text).unwrap().get("text").is_none())
        .count();
    check("server_tools", server_tools.into(), expected["server_tools"].clone());
    let usage = decoded.usage.map_or(Value::Null, |usage| {
        json!([usage.input, usage.cached, usage.cache_write, usage.output, usage.reasoning])
    });
    let recorded = &expected["usage"];
    let theirs = if recorded.is_null() {
        Value::Null
    } else {
        // The recordings list the prompts of provider-run tools separately; they are input as well
        // (docs/rules/wire/usage.md#usage-mapping).
        let prompts = [&recorded["input_uncached"], &recorded["tool_use_prompt"]];
        json!([
            prompts.into_iter().filter_map(Value::as_u64).sum::<u64>(),
            recorded["cache_read"],
            recorded["cache_write"],
            recorded["output_total"],
            recorded["reasoning"]
        ])
    };
    check("usage", usage, theirs);
    for (field, ours) in [("response_id", &decoded.response_id), ("model", &decoded.model)] {
        check(field, ours.as_str().into(), expected[field].as_str().unwrap_or_default().into());
    }
    match ended {
        Ok(completion) => {
            check("complete", true.into(), expected["complete"].clone());
            check(
                "stop_reason_raw",
                completion.stop_raw.clone().into(),
                expected["stop_reason_raw"].clone(),
            );
            check(
                "stop_reason",
                stop_name(completion.stop).into(),
                expected["stop_reason"].clone(),
            );
            for block in &decoded.blocks {
                check("closed", block.closed.into(), true.into());
            }
        }
        Err(failure) => {
            check(
                "complete",
                format!("{failure:?}").into(),
                match expected["complete"] {
                    Value::Bool(false) => format!("{failure:?}").into(),
                    _ => Value::Bool(true),
                },
            );
        }
    }
    wrong
}

/// Intended differences from a recording's `expected.json`, with the reason.
const DIFFERENT: &[(&str, &str, &str)] = &[(
    "vertexai-unary-success-empty-text-part-36d4bc",
    "complete",
    "a stop without any content is requested again, not shown as an answer (docs/rules/wire/google.md#finish-reasons)",
)];

#[test]
fn every_recorded_response_is_decoded_as_expected() {
    let Some(cases) = answered() else { return };
    let mut wrong = Vec::new();
    let mut agree = 0;
    for case in &cases {
        let (decoded, ended) = replay(case);
        let (known, unknown): (Vec<_>, Vec<_>) =
            differences(case, &decoded, &ended).into_iter().partition(|difference| {
                DIFFERENT.iter().any(|(name, field, _)| {
                    case.name.ends_with(name) && difference.starts_with(&format!("{field}:"))
                })
            });
        if known.is_empty() && unknown.is_empty() {
            agree += 1;
        }
        for difference in known {
            println!("{} differs by decision: {difference}", case.name);
        }
        wrong.extend(unknown.iter().map(|difference| format!("{}: {difference}", case.name)));
    }
    println!("{agree} of {} recorded responses agree\n{}", cases.len(), wrong.join("\n"));
    assert_eq!(wrong, Vec::<String>::new());
}

fn kind_of(class: &str) -> &'static [FailureKind] {
    match class {
        "context_overflow" => &[FailureKind::ContextOverflow],
        "rate_limit" => &[FailureKind::RateLimit],
        "overloaded" => &[FailureKind::Overloaded],
        "auth" | "permission" => &[FailureKind::Auth, FailureKind::AuthPermanent],
        "not_found" => &[FailureKind::ModelNotFound],
        "invalid_request" => &[FailureKind::Format],
        other => panic!("a class this test does not know: `{other}`"),
    }
}

#[test]
fn every_recorded_http_error_has_its_kind_its_text_and_its_wait() {
    let Some(cases) = recorded::cases("google") else { return };
    let mut ran = 0;
    let mut wrong = Vec::new();
    for case in cases.iter().filter(|case| case.status() != 200) {
        let header = |name: &str| case.header(name);
        let content_type = case.header("content-type");
        let failure = http_failure(
            Api::GoogleGenerativeAi,
            case.status(),
            &header,
            content_type.as_deref(),
            &case.body,
            0,
        );
        let error = &case.expected["error"];
        let message = error["message"].as_str().unwrap();
        let words: Vec<&str> = message.split_whitespace().take(4).collect();
        assert!(failure.message.starts_with(&words.join(" ")), "{}: {failure:?}", case.name);
        assert_eq!(failure.status, Some(case.status()));
        let wait = failure.retry_after.map(|wait| wait.as_secs_f64());
        assert_eq!(wait, error["retry_delay_s"].as_f64(), "{}", case.name);
        if !kind_of(error["class"].as_str().unwrap()).contains(&failure.kind) {
            wrong.push(format!("{}: {failure:?}, recorded {error}", case.name));
        }
        ran += 1;
    }
    println!("{ran} recorded errors");
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn chunks_line_ends_a_byte_order_mark_and_comments_change_nothing() {
    let Some(cases) = streams() else { return };
    for case in &cases {
        let plain = replay(case);
        assert_eq!(replay_bytes([case.body.as_slice()]), plain, "{} at once", case.name);
        assert_eq!(replay_bytes(case.body.chunks(1)), plain, "{} byte by byte", case.name);
        let text = String::from_utf8(case.body.clone()).unwrap();
        let crlf = text.replace("\r\n", "\n").replace('\n', "\r\n");
        let marked = [b"\xEF\xBB\xBF: a comment\n\n", crlf.as_bytes()].concat();
        assert_eq!(replay_bytes(marked.chunks(7)), plain, "{} marked", case.name);
    }
    println!("{} streams", cases.len());
}

#[test]
fn a_stream_cut_anywhere_before_its_end_is_never_a_success_and_closes_no_call() {
    let Some(cases) = streams() else { return };
    let mut cuts = 0;
    for case in &cases {
        let ends = |data: &[u8]| {
            let text = String::from_utf8_lossy(data);
            text.contains("\"finishReason\"") || text.contains("\"blockReason\"")
        };
        let text = String::from_utf8_lossy(&case.body);
        // Up to the start of the first terminal word.
        let end = ["\"finishReason\"", "\"blockReason\""]
            .iter()
            .filter_map(|word| text.find(word))
            .min()
            .unwrap_or(text.len());
        let step = (end / 400).max(1);
        for length in (0..end).step_by(step) {
            let (decoded, ended) = replay_bytes([&case.body[..length]]);
            let failure = ended.expect_err(&case.name);
            if !case.expected["error"].is_null() || case.expected["complete"] == false {
                continue;
            }
            assert_eq!(
                (failure.kind, failure.code.as_deref()),
                (FailureKind::Network, Some("stream_truncated")),
                "{} cut at {length}",
                case.name
            );
            assert!(decoded.of("call").all(|call| !call.closed), "{} cut at {length}", case.name);
            cuts += 1;
        }
        assert!(recorded::events(&case.body).iter().any(|(_, data)| ends(data)) || end > 0);
    }
    println!("{cuts} cuts of {} streams", cases.len());
}

#[test]
fn a_whole_body_cut_anywhere_is_never_a_success() {
    let Some(cases) = answered() else { return };
    let whole: Vec<_> =
        cases.iter().filter(|case| !is_stream(case) && replay(case).1.is_ok()).collect();
    for case in &whole {
        let body = case.body.trim_ascii();
        for length in (0..body.len()).step_by((body.len() / 100).max(1)) {
            let failure = unary(&body[..length]).1.expect_err(&case.name);
            assert_eq!(failure.code.as_deref(), Some("stream_truncated"), "{}", case.name);
        }
    }
    println!("{} bodies", whole.len());
}
