//! Every recorded case, streaming, whole and failed, against its expected content.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Outcome, frames, joined, read, unary};
use crate::classify::http_failure;
use crate::recorded::{self, Case};
use crate::{Api, Stop};
use model::{Block, FailureKind};

fn is_stream(case: &Case) -> bool {
    case.meta["streaming"].as_bool().unwrap()
}

/// Signatures and encrypted parts, in order, by their digest.
fn opaque(outcome: &Outcome) -> Value {
    let values = outcome.0.blocks.iter().filter_map(|block| match block {
        Block::Thinking { signature: Some(signature), .. } => Some(("signature", signature)),
        Block::RedactedThinking { data, .. } => Some(("redacted_thinking", data)),
        _ => None,
    });
    values
        .map(|(kind, value)| {
            let digest = Sha256::digest(value);
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "kind": kind, "length": value.chars().count(), "sha256": hex })
        })
        .collect()
}

/// A call's arguments as a value, because a whole answer has them as an object of any spelling.
fn arguments(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| json.into())
}

fn stop_agrees(expected: &Value, stop: Stop) -> bool {
    match expected["stop_reason"].as_str() {
        Some("end_turn") => stop == Stop::EndTurn,
        Some("tool_use") => stop == Stop::ToolUse,
        Some("max_tokens") => stop == Stop::MaxTokens,
        Some("content_filter") => stop == Stop::ContentFilter,
        other => panic!("a stop reason this test does not know: {other:?}"),
    }
}

fn differences(case: &Case, outcome: &Outcome) -> Vec<String> {
    let (decoded, ended) = outcome;
    let expected = &case.expected;
    let mut wrong = Vec::new();
    let mut check = |field: &str, ours: Value, theirs: Value| {
        if ours != theirs {
            wrong.push(format!("{field}: ours {ours}, recorded {theirs}"));
        }
    };
    check("text", joined(decoded, "text").into(), expected["text"].clone());
    check("reasoning", joined(decoded, "thinking").into(), expected["reasoning"].clone());
    let mut server_tools = 0;
    let mut calls = Vec::new();
    for block in &decoded.blocks {
        match block {
            Block::ToolCall { id, name, arguments_json, incomplete, .. } => {
                assert!(!incomplete, "{}", case.name);
                calls.push(json!([id, name, arguments(arguments_json)]));
            }
            Block::Opaque { raw_json } if raw_json.starts_with("{\"toolUse\"") => server_tools += 1,
            _ => {}
        }
    }
    let recorded = expected["tool_calls"].as_array().unwrap().iter().map(|call| {
        json!([call["id"], call["name"], arguments(call["arguments_raw"].as_str().unwrap())])
    });
    check("tool_calls", calls.into(), recorded.collect::<Vec<_>>().into());
    check("server_tools", server_tools.into(), expected["server_tools"].clone());
    check("opaque", opaque(outcome), expected["opaque"].clone());
    let usage = decoded.usage.map(|usage| {
        json!([usage.input, usage.cached, usage.cache_write, usage.output, usage.reasoning])
    });
    let recorded = &expected["usage"];
    let theirs = ["input_uncached", "cache_read", "cache_write", "output_total", "reasoning"]
        .map(|name| recorded[name].clone());
    check("usage", usage.into(), theirs.to_vec().into());
    match ended {
        Ok(completion) => {
            check("complete", true.into(), expected["complete"].clone());
            let raw = completion.stop_raw.as_str();
            check("stop_reason_raw", raw.into(), expected["stop_reason_raw"].clone());
            if !stop_agrees(expected, completion.stop) {
                let stop = format!("{:?}", completion.stop);
                check("stop_reason", stop.into(), expected["stop_reason"].clone());
            }
        }
        Err(failure) => check("failure", format!("{failure:?}").into(), Value::Null),
    }
    wrong
}

/// Intended differences from a recording's `expected.json`, with the reason.
const DIFFERENT: &[(&str, &[&str], &str)] = &[
    (
        "grounds-the-answer-with-web-citations-6dc6ab",
        &["tool_calls", "server_tools"],
        "`nova_grounding` is a `server_tool_use`: the provider ran it, its block is kept and replayed",
    ),
    (
        "streams-grounded-turns-3ea398",
        &["tool_calls", "server_tools"],
        "`nova_grounding` is a `server_tool_use`: the provider ran it, its block is kept and replayed",
    ),
];

#[test]
fn every_recorded_response_is_decoded_as_expected() {
    let Some(cases) = recorded::cases("bedrock") else { return };
    let mut wrong = Vec::new();
    let (mut agree, mut answered) = (0, 0);
    for case in cases.iter().filter(|case| case.status() == 200) {
        answered += 1;
        let body = case.body.as_slice();
        let outcome = if is_stream(case) { read([body]) } else { unary(body) };
        let (known, unknown): (Vec<_>, Vec<_>) =
            differences(case, &outcome).into_iter().partition(|difference| {
                DIFFERENT.iter().any(|(name, fields, _)| {
                    case.name.ends_with(name)
                        && fields.iter().any(|field| difference.starts_with(&format!("{field}:")))
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
    println!("{agree} of {answered} recorded Converse responses agree\n{}", wrong.join("\n"));
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_recorded_http_error_has_its_kind_and_text() {
    let Some(cases) = recorded::cases("bedrock") else { return };
    let mut ran = 0;
    for case in cases.iter().filter(|case| case.status() != 200) {
        let header = |name: &str| case.header(name);
        let kind = case.header("content-type");
        let (api, status) = (Api::BedrockConverse, case.status());
        let failure = http_failure(api, status, &header, kind.as_deref(), &case.body, 0);
        let class = case.expected["error"]["class"].as_str().unwrap();
        let message = case.expected["error"]["message"].as_str().unwrap();
        let allowed: &[FailureKind] = match class {
            "rate_limit" => &[FailureKind::RateLimit],
            "permission" => &[FailureKind::Auth],
            "context_overflow" => &[FailureKind::ContextOverflow],
            // A missing model is a kind of its own here.
            "invalid_request" => &[FailureKind::Format, FailureKind::ModelNotFound],
            other => panic!("a class this test does not know: `{other}`"),
        };
        assert!(allowed.contains(&failure.kind), "{}: {failure:?}", case.name);
        let words: Vec<&str> = message.split_whitespace().take(4).collect();
        assert!(failure.message.starts_with(&words.join(" ")), "{}: {failure:?}", case.name);
        assert_eq!(failure.status, Some(case.status()));
        ran += 1;
    }
    println!("{ran} recorded Converse errors");
}

#[test]
fn the_chunking_of_the_network_changes_nothing() {
    let Some(cases) = recorded::cases("bedrock") else { return };
    let mut ran = 0;
    for case in cases.iter().filter(|case| case.status() == 200 && is_stream(case)) {
        let whole = read([case.body.as_slice()]);
        for size in [1, 2, 13, 1_000] {
            assert_eq!(read(case.body.chunks(size)), whole, "{} by {size}", case.name);
        }
        ran += 1;
    }
    println!("{ran} recorded Converse streams in four chunkings");
}

#[test]
fn a_stream_cut_anywhere_before_its_end_is_never_a_success_and_closes_no_cut_call() {
    let Some(cases) = recorded::cases("bedrock") else { return };
    let mut cuts = 0;
    for case in cases.iter().filter(|case| case.status() == 200 && is_stream(case)) {
        let frames = frames(&case.body);
        let end = frames.iter().find(|(name, _)| name == "messageStop").unwrap().1;
        // Around the ends of frames, and inside their preludes and headers: the bytes between are one frame.
        let cuts_of = |end: &usize| [*end - 1, *end, *end + 1, *end + 12, *end + 40];
        let ends = std::iter::once(&1).chain(frames.iter().map(|(_, end)| end));
        for at in ends.flat_map(cuts_of).filter(|at| *at < case.body.len()) {
            let (decoded, ended) = read([&case.body[..at]]);
            cuts += 1;
            if at >= end {
                assert!(ended.is_ok(), "{} at {at}: {ended:?}", case.name);
                continue;
            }
            let failure = ended.expect_err(&case.name);
            assert_eq!(
                (failure.kind, failure.code.as_deref()),
                (FailureKind::Network, Some("stream_truncated"))
            );
            let stops =
                frames.iter().filter(|(name, end)| name == "contentBlockStop" && *end <= at);
            let closed = decoded
                .blocks
                .iter()
                .filter(|block| matches!(block, Block::ToolCall { incomplete: false, .. }));
            assert!(closed.count() <= stops.count(), "{} at {at}", case.name);
        }
    }
    println!("{cuts} cuts");
}

#[test]
fn a_flipped_bit_is_never_a_success_before_the_end() {
    let Some(cases) = recorded::cases("bedrock") else { return };
    let mut flips = 0;
    for case in cases.iter().filter(|case| case.status() == 200 && is_stream(case)) {
        for at in (0..case.body.len()).step_by(101) {
            let mut broken = case.body.clone();
            broken[at] ^= 1 << (at % 8);
            let (_, ended) = read([broken.as_slice()]);
            let failure = ended.expect_err(&case.name);
            assert_eq!(
                (failure.kind, failure.code.as_deref()),
                (FailureKind::Network, Some("frame_damaged")),
                "{} at {at}",
                case.name
            );
            flips += 1;
        }
    }
    println!("{flips} flipped bits");
}
