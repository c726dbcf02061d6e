//! The project's own streams, and one test per oddity of docs/rules/wire/openai-chat.md#compatible-servers.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Decoded, decode, stream, unary};
use crate::{Completion, Failure, ReportedUsage, Stop, recorded};
use model::FailureKind;

fn summary(decoded: &Decoded, ended: &Result<Completion, Failure>) -> Value {
    let mut out = json!({
        "text": decoded.joined("text"),
        "reasoning": decoded.joined("thinking"),
        "calls": decoded.calls(),
    });
    let data: Vec<&str> = decoded.of("thinking").map(|block| block.data.as_str()).collect();
    match ended {
        Ok(completion) => {
            out["stop"] = format!("{:?}", completion.stop).into();
            out["stop_raw"] = completion.stop_raw.clone().into();
            out["usage"] = decoded.usage.map_or(Value::Null, |usage| {
                json!([usage.input, usage.cached, usage.cache_write, usage.output, usage.reasoning])
            });
            if !data.is_empty() {
                out["data"] = json!(data);
            }
        }
        Err(failure) => out["failure"] = json!([failure.kind.as_str(), failure.code]),
    }
    out
}

#[test]
fn the_projects_own_streams_are_decoded() {
    let fixtures = recorded::fixtures("chat");
    for fixture in &fixtures {
        let (decoded, ended) = if fixture.is_stream {
            let events = recorded::events(&fixture.body);
            decode(events.iter().map(|(name, data)| (name.as_str(), data.as_slice())))
        } else {
            unary(&fixture.body)
        };
        assert_eq!(summary(&decoded, &ended), fixture.expected, "{}", fixture.name);
    }
    assert!(fixtures.len() >= 16, "only {} fixtures", fixtures.len());
}

/// The calls of a stream with these `tool_calls` in its deltas, ended by `finish`.
fn calls(pieces: &[Value], finish: &str) -> (Vec<String>, Stop) {
    let mut data: Vec<String> = pieces
        .iter()
        .map(|calls| json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}).to_string())
        .collect();
    data.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}).to_string());
    let data: Vec<&str> = data.iter().map(String::as_str).collect();
    let (decoded, ended) = stream(&data);
    (decoded.calls(), ended.unwrap().stop)
}

#[test]
fn tool_calls_are_distinguished_over_the_numberings_of_all_servers() {
    let f = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    let cases: Vec<(&str, Vec<Value>, Vec<&str>)> = vec![
        (
            "no index, no id, two calls",
            vec![json!([{"function": f("a", "{}")}]), json!([{"function": f("b", "{\"x\":1}")}])],
            vec![" a {}", " b {\"x\":1}"],
        ),
        (
            "no index, no id, twice the same tool",
            vec![json!([{"function": f("a", "{}")}]), json!([{"function": f("a", "{}")}])],
            vec![" a {}", " a {}"],
        ),
        (
            "two whole calls in one chunk, both index 0",
            vec![json!([
                {"index": 0, "id": "1", "function": f("a", "{}")},
                {"index": 0, "id": "2", "function": f("a", "{}")}
            ])],
            vec!["1 a {}", "2 a {}"],
        ),
        (
            "one call at several indexes",
            vec![
                json!([{"index": 0, "id": "1", "function": f("a", "")}]),
                json!([{"index": 1, "id": "1", "function": f("", "{\"x\":")}]),
                json!([{"index": 2, "function": f("", "1}")}]),
            ],
            vec!["1 a {\"x\":1}"],
        ),
        (
            "the name in every chunk",
            vec![
                json!([{"index": 0, "id": "1", "function": f("a", "")}]),
                json!([{"index": 0, "id": "1", "function": f("a", "{\"x\":")}]),
                json!([{"index": 0, "function": f("a", "1}")}]),
            ],
            vec!["1 a {\"x\":1}"],
        ),
        (
            "a fresh id for every fragment",
            vec![
                json!([{"index": 0, "id": "1", "function": f("a", "{\"x\":")}]),
                json!([{"index": 0, "id": "2", "function": {"arguments": "1}"}}]),
            ],
            vec!["1 a {\"x\":1}"],
        ),
        (
            "the id and the name come late",
            vec![
                json!([{"index": 0, "function": {"arguments": "{}"}}]),
                json!([{"index": 0, "id": "1", "function": {"name": "a"}}]),
            ],
            vec!["1 a {}"],
        ),
        (
            "fragments of two calls in turn",
            vec![
                json!([{"index": 0, "id": "1", "function": f("a", "{\"x\":")}, {"index": 1, "id": "2", "function": f("b", "{\"y\":")}]),
                json!([{"index": 0, "function": {"arguments": "1}"}}, {"index": 1, "function": {"arguments": "2}"}}]),
            ],
            vec!["1 a {\"x\":1}", "2 b {\"y\":2}"],
        ),
        (
            "the whole call once more at the end",
            vec![
                json!([{"index": 0, "id": "1", "function": f("a", "{\"x\":1}")}]),
                json!([{"index": 0, "id": "1", "function": f("a", "{\"x\":1}")}]),
            ],
            vec!["1 a {\"x\":1}"],
        ),
        (
            "one id for two calls",
            vec![
                json!([{"index": 0, "id": "1", "function": f("a", "{\"x\":1}")}]),
                json!([{"index": 1, "id": "1", "function": f("a", "{\"x\":2}")}]),
            ],
            vec!["1 a {\"x\":1}", "1 a {\"x\":2}"],
        ),
        (
            "arguments as an object, a number as id, null where a text belongs",
            vec![
                json!([{"index": "0", "id": 7, "type": null, "function": {"name": "a", "arguments": {"x": [1]}}}]),
            ],
            vec!["7 a {\"x\":[1]}"],
        ),
        (
            "no arguments at all",
            vec![json!([{"index": 0, "id": "1", "function": {"name": "a", "arguments": null}}])],
            vec!["1 a "],
        ),
    ];
    for (what, pieces, expected) in cases {
        assert_eq!(
            calls(&pieces, "stop"),
            (expected.iter().map(ToString::to_string).collect(), Stop::ToolUse),
            "{what}"
        );
    }
}

#[test]
fn a_legacy_function_call_is_a_call_without_an_id() {
    let (decoded, ended) = stream(&[
        r#"{"choices":[{"delta":{"function_call":{"name":"a","arguments":"{"}}}]}"#,
        r#"{"choices":[{"delta":{"function_call":{"arguments":"}"}}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"function_call"}]}"#,
    ]);
    assert_eq!((decoded.calls(), ended.unwrap().stop), (vec![" a {}".to_owned()], Stop::ToolUse));
}

#[test]
fn a_calls_own_extra_content_is_stored_verbatim() {
    let (decoded, _) = stream(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"id":"1","function":{"name":"a","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s/+=" }}}]}}]}"#,
    ]);
    let data: Vec<&str> = decoded.of("call").map(|call| call.data.as_str()).collect();
    assert_eq!(data, [r#"{"extra_content":{"google":{"thought_signature":"s/+=" }}}"#]);
}

#[test]
fn content_may_be_mistrals_list_of_parts() {
    let (decoded, ended) = stream(&[
        r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]}}]}"#,
        r#"{"choices":[{"delta":{"content":[{"type":"text","text":"Yes"}]},"finish_reason":"stop"}]}"#,
    ]);
    assert_eq!(
        (decoded.joined("thinking"), decoded.joined("text"), ended.unwrap().stop),
        ("Hm".to_owned(), "Yes".to_owned(), Stop::EndTurn)
    );
}

#[test]
fn only_choice_0_counts() {
    let (decoded, ended) = stream(&[
        r#"{"choices":[{"index":1,"delta":{"content":"B"}}]}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"B"},"finish_reason":"stop"},{"index":0,"delta":{"content":"A"}}]}"#,
    ]);
    assert_eq!(decoded.joined("text"), "A");
    assert_eq!(ended.unwrap_err().code.as_deref(), Some("stream_truncated"));
}

#[test]
fn json_that_javascript_accepts_and_serde_refuses_is_repaired() {
    let (decoded, ended) = decode([
        ("", br#"{"choices":[{"delta":{"content":"a\ud83d b\\ud83d \ud83d\ude00"}}]}"#.as_slice()),
        ("", b"{\"choices\":[{\"delta\":{\"content\":\" \xff!\"}}]}".as_slice()),
        (
            "",
            br#"{"id":"1","id":"2","choices":[{"delta":{"content":"."},"finish_reason":"stop"}]}"#
                .as_slice(),
        ),
    ]);
    assert_eq!(decoded.joined("text"), "a\u{fffd} b\\ud83d 😀 \u{fffd}!.");
    assert_eq!(ended.unwrap().stop, Stop::EndTurn);
}

#[test]
fn invalid_bytes_are_a_typed_failure_and_nothing_is_skipped_silently() {
    let cases = [
        ("not json", FailureKind::ServerError, "malformed_event"),
        (r#"{"choices":[{"delta":{"content":"cut"#, FailureKind::ServerError, "malformed_event"),
        (
            r#"[{"error":{"code":503,"status":"UNAVAILABLE","message":"The model is overloaded."}}]"#,
            FailureKind::Overloaded,
            "UNAVAILABLE",
        ),
        (r#"{"error":"model not found"}"#, FailureKind::ModelNotFound, "provider_error"),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#,
            FailureKind::ServerError,
            "provider_error",
        ),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"error","error":{"code":502,"message":"upstream"}}]}"#,
            FailureKind::ServerError,
            "502",
        ),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"insufficient_system_resource"}]}"#,
            FailureKind::Overloaded,
            "insufficient_system_resource",
        ),
        ("[DONE]", FailureKind::ServerError, "empty_response"),
        ("", FailureKind::Network, "stream_truncated"),
    ];
    for (data, kind, code) in cases {
        let (_, ended) = stream(&[data]);
        let failure = ended.expect_err(data);
        assert_eq!((failure.kind, failure.code.as_deref()), (kind, Some(code)), "{data}");
    }
    let (_, ended) = decode([("error", b"upstream went away".as_slice())]);
    assert_eq!(ended.unwrap_err().message, "upstream went away");
    let (_, ended) = decode([("error", br#"{"message":"Overloaded"}"#.as_slice())]);
    assert_eq!(ended.unwrap_err().kind, FailureKind::Overloaded);
}

#[test]
fn an_error_after_the_finish_reason_does_not_undo_the_answer() {
    let (decoded, ended) = stream(&[
        r#"{"choices":[{"delta":{"content":"A"},"finish_reason":"stop"}]}"#,
        r#"{"error":{"message":"usage service down"}}"#,
        "[DONE]",
        "never read",
    ]);
    assert_eq!((decoded.joined("text"), ended.unwrap().stop), ("A".to_owned(), Stop::EndTurn));
}

#[test]
fn no_later_finish_reason_makes_a_cut_answer_whole() {
    let (decoded, ended) = stream(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{\"x\":"}}]},"finish_reason":"length"}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
    ]);
    assert_eq!(
        (decoded.calls(), ended.unwrap().stop),
        (vec!["1 a {\"x\":…".to_owned()], Stop::MaxTokens)
    );
}

#[test]
fn done_without_a_reason_closes_only_whole_calls() {
    let (decoded, ended) = stream(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{}"}},{"index":1,"id":"2","function":{"name":"b","arguments":"{\"x"}}]}}]}"#,
        "[DONE]",
    ]);
    assert_eq!(decoded.calls(), ["1 a {}", "2 b {\"x…"]);
    assert_eq!(ended.unwrap().stop, Stop::Other);
}

#[test]
fn usage_of_every_vendor_counts_each_token_once() {
    let read = |usage: Value| {
        let chunk = json!({"choices": [], "usage": usage}).to_string();
        stream(&[&chunk]).0.usage
    };
    let reported = |input, cached, cache_write, output, reasoning| {
        Some(ReportedUsage { input, output, cached, cache_write, cache_write_hour: 0, reasoning })
    };
    let cases = [
        (json!({"prompt_tokens": 10, "completion_tokens": 3}), reported(10, 0, 0, 3, None)),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 3, "cached_tokens": 4}),
            reported(6, 4, 0, 3, None),
        ),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": null, "prompt_cache_hit_tokens": 4}),
            reported(6, 4, 0, 3, None),
        ),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 40}}),
            reported(0, 40, 0, 3, None),
        ),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 5}}),
            reported(1, 4, 5, 3, None),
        ),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 9, "total_tokens": 19, "completion_tokens_details": {"reasoning_tokens": 6}}),
            reported(10, 0, 0, 9, Some(6)),
        ),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 19, "completion_tokens_details": {"reasoning_tokens": 6}}),
            reported(10, 0, 0, 9, Some(6)),
        ),
        (json!({"prompt_tokens": "10", "completion_tokens": -1}), reported(10, 0, 0, 0, None)),
        (json!({}), None),
        (json!("none"), None),
    ];
    for (usage, expected) in cases {
        let shown = usage.to_string();
        assert_eq!(read(usage), expected, "{shown}");
    }
}

fn own(name: &str) -> Vec<recorded::Event> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/chat");
    recorded::events(&std::fs::read(folder.join(name)).unwrap())
}

proptest! {
    #[test]
    fn lost_duplicated_or_reordered_events_never_break_a_block(
        picks in proptest::collection::vec((0..5_usize, any::<proptest::sample::Index>()), 0..24),
    ) {
        let streams = ["parallel-tool-calls.sse", "openrouter-reasoning-details.sse", "azure-filtered.sse", "refusal.sse", "error-mid-stream.sse"].map(own);
        let events: Vec<_> = picks.iter().map(|(stream, index)| index.get(&streams[*stream])).collect();
        // The sink checks that every delta has its open block.
        let (_, ended) = decode(events.iter().map(|(name, data)| (name.as_str(), data.as_slice())));
        let is_end = |data: &[u8]| {
            let text = String::from_utf8_lossy(data);
            text.contains("[DONE]") || text.contains("\"finish_reason\":\"")
        };
        let saw_end = events.iter().any(|(_, data)| is_end(data));
        prop_assert!(saw_end || ended.is_err());
    }

    #[test]
    fn no_bytes_panic_the_decoder(data in proptest::collection::vec(any::<u8>(), 0..80), name in "[a-z]{0,5}") {
        let _ = decode([(name.as_str(), data.as_slice())]);
        let _ = unary(&data);
    }

    #[test]
    fn a_stream_with_any_byte_changed_is_decoded_or_refused(at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
        let mut events = own("parallel-tool-calls.sse");
        let position = at.index(events.len());
        let data = &mut events[position].1;
        let at = at.index(data.len());
        data[at] = byte;
        let _ = decode(events.iter().map(|(name, data)| (name.as_str(), data.as_slice())));
    }
}
