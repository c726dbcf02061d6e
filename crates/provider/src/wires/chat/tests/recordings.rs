//! Every recorded chat case, streaming, whole and failed, against its expected content.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Decoded, decode, unary};
use crate::classify::http_failure;
use crate::recorded::{self, Case, Event};
use crate::{Completion, Failure, Stop};
use model::FailureKind;

fn feed(events: &[Event]) -> (Decoded, Result<Completion, Failure>) {
    decode(events.iter().map(|(name, data)| (name.as_str(), data.as_slice())))
}

fn is_stream(case: &Case) -> bool {
    case.meta["streaming"].as_bool().unwrap()
}

/// Signatures and encrypted parts, in order, by their digest.
fn opaque(decoded: &Decoded) -> Vec<Value> {
    let mut found = Vec::new();
    for block in decoded.of("thinking") {
        let Ok(data) = serde_json::from_str::<Value>(&block.data) else { continue };
        for detail in data["reasoning_details"].as_array().into_iter().flatten() {
            for kind in ["signature", "data"] {
                if let Some(value) = detail[kind].as_str().filter(|value| !value.is_empty()) {
                    let digest = Sha256::digest(value);
                    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                    found.push(serde_json::json!({
                        "kind": format!("reasoning_details.{kind}"),
                        "length": value.chars().count(),
                        "sha256": hex,
                    }));
                }
            }
        }
    }
    found
}

/// The stop of a recording's name, with the engine's decision where the corpus leaves it open.
fn stop_agrees(expected: &Value, stop: Stop) -> bool {
    let has_calls = !expected["tool_calls"].as_array().unwrap().is_empty();
    let refused = !expected["refusal"].as_str().unwrap().is_empty();
    match expected["stop_reason"].as_str() {
        // Calls override a plain stop, and a missing one.
        Some("end_turn" | "other") | None if has_calls => stop == Stop::ToolUse,
        Some("end_turn") if refused => stop == Stop::Refusal,
        Some("end_turn") => stop == Stop::EndTurn,
        Some("tool_use") => stop == Stop::ToolUse,
        Some("max_tokens") => stop == Stop::MaxTokens,
        Some("content_filter") => stop == Stop::ContentFilter,
        Some("other") | None => stop == Stop::Other,
        Some(other) => panic!("a stop reason this test does not know: `{other}`"),
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
    let text = |field: &str| expected[field].as_str().unwrap_or_default().to_owned();
    // A refusal is shown as text.
    check("text", decoded.joined("text").into(), (text("text") + &text("refusal")).into());
    check("reasoning", decoded.joined("thinking").into(), text("reasoning").into());
    let calls: Vec<Value> =
        decoded.of("call").map(|call| serde_json::json!([call.id, call.name, call.text])).collect();
    let recorded_calls: Vec<Value> = expected["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| {
            let id = call["id"].as_str().unwrap_or_default();
            serde_json::json!([id, call["name"], call["arguments_raw"]])
        })
        .collect();
    check("tool_calls", calls.into(), recorded_calls.into());
    check("opaque", opaque(decoded).into(), expected["opaque"].clone());
    if let Some(usage) = decoded.usage {
        let number = |value: Option<u64>| value.map_or(Value::Null, Value::from);
        let ours = serde_json::json!([
            usage.input,
            usage.cached,
            usage.cache_write,
            usage.output,
            number(usage.reasoning)
        ]);
        let recorded = &expected["usage"];
        let theirs = serde_json::json!([
            recorded["input_uncached"],
            recorded["cache_read"],
            recorded["cache_write"],
            recorded["output_total"],
            recorded["reasoning"]
        ]);
        check("usage", ours, theirs);
    } else {
        check("usage", Value::Null, expected["usage"].clone());
    }
    if expected["response_id"].is_string() {
        check("response_id", decoded.response_id.clone().into(), expected["response_id"].clone());
    }
    if expected["model"].is_string() {
        check("model", decoded.model.clone().into(), expected["model"].clone());
    }
    let is_error = !expected["error"].is_null() || expected["complete"] == false;
    match ended {
        Ok(completion) => {
            check("complete", (!is_error).into(), true.into());
            let raw = text("stop_reason_raw");
            check("stop_reason_raw", completion.stop_raw.clone().into(), raw.into());
            if !stop_agrees(expected, completion.stop) {
                check(
                    "stop_reason",
                    format!("{:?}", completion.stop).into(),
                    expected["stop_reason"].clone(),
                );
            }
            // A call that may have been cut never closes; every other call does.
            let last = decoded.of("call").count().wrapping_sub(1);
            for (position, call) in decoded.of("call").enumerate() {
                let may_be_cut = completion.stop == Stop::MaxTokens && position == last;
                check("closed", call.closed.into(), (!may_be_cut).into());
            }
        }
        Err(failure) => check(
            "failure",
            format!("{failure:?}").into(),
            if is_error { format!("{failure:?}").into() } else { Value::Null },
        ),
    }
    wrong
}

/// Intended differences from a recording's `expected.json`, with the reason.
const DIFFERENT: &[(&str, &str, &str)] = &[
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
    (
        "hermes-4-405b-token-limit-c00e43",
        "failure",
        "the choice holds an error 502 and no finish reason",
    ),
    (
        "without-parameters-in-multi-turn-streaming-conversations-s1-223cb2",
        "usage",
        "more cached than prompt tokens: an input below zero is zero (docs/rules/wire/usage.md#usage-mapping)",
    ),
];

#[test]
fn every_recorded_response_is_decoded_as_expected() {
    let Some(cases) = recorded::cases("chat") else { return };
    let mut wrong = Vec::new();
    let mut agree = 0;
    let mut answered = 0;
    for case in cases.iter().filter(|case| case.status() == 200) {
        answered += 1;
        let (decoded, ended) =
            if is_stream(case) { feed(&recorded::events(&case.body)) } else { unary(&case.body) };
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
    println!("{agree} of {answered} recorded chat responses agree\n{}", wrong.join("\n"));
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_recorded_http_error_has_its_status_and_text() {
    let Some(cases) = recorded::cases("chat") else { return };
    let mut ran = 0;
    for case in cases.iter().filter(|case| case.status() != 200) {
        let header = |name: &str| case.header(name);
        let content_type = case.header("content-type");
        let failure = http_failure(
            crate::Api::OpenaiChat,
            case.status(),
            &header,
            content_type.as_deref(),
            &case.body,
            0,
        );
        let message = case.expected["error"]["message"].as_str().unwrap();
        let words: Vec<&str> = message.split_whitespace().take(4).collect();
        assert!(failure.message.starts_with(&words.join(" ")), "{}: {failure:?}", case.name);
        assert_eq!(failure.status, Some(case.status()));
        ran += 1;
    }
    println!("{ran} recorded chat errors");
}

#[test]
fn line_ends_a_byte_order_mark_and_comments_change_nothing() {
    let Some(cases) = recorded::cases("chat") else { return };
    for case in cases.iter().filter(|case| case.status() == 200 && is_stream(case)) {
        let plain = feed(&recorded::events(&case.body));
        let text = String::from_utf8(case.body.clone()).unwrap();
        let crlf = text.replace("\r\n", "\n").replace('\n', "\r\n");
        let marked = [b"\xEF\xBB\xBF: a comment\n\n".as_slice(), &case.body].concat();
        assert_eq!(feed(&recorded::events(crlf.as_bytes())), plain, "{}", case.name);
        assert_eq!(feed(&recorded::events(&marked)), plain, "{}", case.name);
    }
}

#[test]
fn a_stream_cut_before_its_end_is_never_a_success_and_closes_no_block() {
    let Some(cases) = recorded::cases("chat") else { return };
    let mut cuts = 0;
    for case in cases.iter().filter(|case| case.status() == 200 && is_stream(case)) {
        let events = recorded::events(&case.body);
        let ends = |data: &[u8]| {
            data.trim_ascii() == b"[DONE]"
                || serde_json::from_slice::<Value>(data).is_ok_and(|chunk| {
                    chunk["choices"].as_array().into_iter().flatten().any(|choice| {
                        choice["index"].as_u64().unwrap_or(0) == 0
                            && choice["finish_reason"]
                                .as_str()
                                .is_some_and(|reason| !reason.is_empty())
                    })
                })
        };
        let end = events.iter().position(|(_, data)| ends(data)).unwrap_or(events.len());
        for length in 0..=end {
            let (decoded, ended) = feed(&events[..length]);
            let failure = ended.expect_err(&case.name);
            assert_eq!(
                (failure.kind, failure.code.as_deref()),
                (FailureKind::Network, Some("stream_truncated"))
            );
            assert!(decoded.blocks.iter().all(|block| !block.closed), "{}", case.name);
            cuts += 1;
        }
    }
    println!("{cuts} cuts");
}
