//! The project's own streams, and one test per oddity of docs/rules/wire/google.md.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Decoded, decode, stream, unary};
use crate::{Completion, Failure, ReportedUsage, Stop, recorded};
use model::FailureKind;

fn summary(decoded: &Decoded, ended: &Result<Completion, Failure>) -> Value {
    let mut out = json!({ "blocks": decoded.lines() });
    match ended {
        Ok(completion) => {
            out["stop"] = format!("{:?}", completion.stop).into();
            out["stop_raw"] = completion.stop_raw.clone().into();
            out["usage"] = decoded.usage.map_or(Value::Null, |usage| {
                json!([usage.input, usage.cached, usage.cache_write, usage.output, usage.reasoning])
            });
        }
        Err(failure) => out["failure"] = json!([failure.kind.as_str(), failure.code]),
    }
    out
}

#[test]
fn the_projects_own_streams_are_decoded() {
    let fixtures = recorded::fixtures("google");
    for fixture in &fixtures {
        let (decoded, ended) = if fixture.is_stream {
            let events = recorded::events(&fixture.body);
            decode(events.iter().map(|(name, data)| (name.as_str(), data.as_slice())))
        } else {
            unary(&fixture.body)
        };
        assert_eq!(summary(&decoded, &ended), fixture.expected, "{}", fixture.name);
    }
    assert!(fixtures.len() >= 12, "only {} fixtures", fixtures.len());
}

/// A stream of one chunk per list of parts, ended by `finish`.
fn parts(chunks: &[Value], finish: &str) -> (Decoded, Result<Completion, Failure>) {
    let mut data: Vec<String> = chunks
        .iter()
        .map(|parts| {
            let content = json!({ "role": "model", "parts": parts });
            json!({ "responseId": "r-1", "candidates": [{ "content": content }] }).to_string()
        })
        .collect();
    data.push(json!({ "candidates": [{ "finishReason": finish }] }).to_string());
    let data: Vec<&str> = data.iter().map(String::as_str).collect();
    stream(&data)
}

fn lines(chunks: &[Value]) -> Vec<String> {
    let (decoded, ended) = parts(chunks, "STOP");
    ended.unwrap();
    decoded.lines()
}

#[test]
fn consecutive_parts_of_one_kind_are_one_block_and_a_signed_part_is_its_own() {
    assert_eq!(
        lines(&[
            json!([{ "text": "a", "thought": true }]),
            json!([{ "text": "b", "thought": true }, { "text": "c" }]),
            json!([{ "text": "d" }, { "text": "e", "thoughtSignature": "s1" }, { "text": "f" }]),
            json!([{ "text": "", "thoughtSignature": "s2" }, { "text": "" }]),
            json!([{ "text": "g", "thought": true, "thoughtSignature": "s3" }]),
        ]),
        [
            "thinking ab",
            "text cd",
            "text e ^s1",
            "text f",
            r#"opaque {"text":"","thoughtSignature":"s2"}"#,
            "thinking g ^s3",
        ]
    );
}

#[test]
fn calls_have_unique_ids_and_retain_their_signature_and_their_bytes() {
    let calls = [
        r#"{"responseId":"r_1","candidates":[{"content":{"parts":[{"functionCall":{"name":"a","args":{"n": 1.50, "s":"é"}},"thoughtSignature":"s"}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a","args":{}}},{"functionCall":{"id":"x","name":"b"}},{"functionCall":{"id":"x","name":"c"}}]},"finishReason":"STOP"}]}"#,
    ];
    let (decoded, ended) = stream(&calls);
    assert_eq!(
        decoded.lines(),
        [
            r#"call callr1x1 a {"n": 1.50, "s":"é"} ^s"#,
            "call callr1x2 a {}",
            "call x b {}",
            "call callr1x4 c {}",
        ]
    );
    assert_eq!(ended.unwrap().stop, Stop::ToolUse);
}

#[test]
fn a_repeated_call_with_an_id_is_one() {
    let call = json!([{ "functionCall": { "id": "x", "name": "a", "args": {} } }]);
    assert_eq!(lines(&[call.clone(), call]), ["call x a {}"]);
    let nameless = json!([{ "functionCall": { "name": "a", "args": {} } }]);
    assert_eq!(lines(&[nameless.clone(), nameless]).len(), 2);
}

#[test]
fn arguments_in_pieces_are_joined_and_a_call_without_its_end_is_never_whole() {
    let piece = |rest: Value| json!([{ "functionCall": rest }]);
    let begin = piece(json!({ "name": "w", "willContinue": true }));
    let middle = piece(
        json!({ "partialArgs": [{ "jsonPath": "$.a[0].b", "stringValue": "x", "willContinue": true }], "willContinue": true }),
    );
    let last = piece(json!({ "partialArgs": [{ "jsonPath": "$.a[0].b", "stringValue": "y" }] }));
    let whole = [begin.clone(), middle.clone(), last];
    assert_eq!(lines(&whole), [r#"call callr1x1 w {"a":[{"b":"xy"}]}"#]);
    let closed = [begin.clone(), middle.clone(), piece(json!({}))];
    assert_eq!(lines(&closed), [r#"call callr1x1 w {"a":[{"b":"x"}]}"#]);
    let (decoded, ended) = parts(&[begin, middle], "STOP");
    assert_eq!(decoded.lines(), ["call callr1x1 w …"]);
    assert_eq!(ended.unwrap().stop, Stop::MalformedToolCall);
}

#[test]
fn an_unknown_part_is_stored_unchanged() {
    let raw = r#"{"executableCode" : {"language":"PYTHON","code":"1"}, "thoughtSignature":"s"}"#;
    let chunk = format!(
        r#"{{"candidates":[{{"content":{{"parts":[{raw},{{"toolCall":{{"x":1e400}}}},{{}}]}},"finishReason":"STOP"}}]}}"#
    );
    let (decoded, ended) = stream(&[&chunk]);
    assert_eq!(ended.unwrap().stop, Stop::EndTurn);
    assert_eq!(
        decoded.lines(),
        [format!("opaque {raw}"), r#"opaque {"toolCall":{"x":1e400}}"#.to_owned()]
    );
}

#[test]
fn every_finish_reason_has_its_meaning() {
    let table = [
        ("STOP", Stop::EndTurn),
        ("MAX_TOKENS", Stop::MaxTokens),
        ("SAFETY", Stop::ContentFilter),
        ("RECITATION", Stop::ContentFilter),
        ("LANGUAGE", Stop::ContentFilter),
        ("BLOCKLIST", Stop::ContentFilter),
        ("PROHIBITED_CONTENT", Stop::ContentFilter),
        ("SPII", Stop::ContentFilter),
        ("MODEL_ARMOR", Stop::ContentFilter),
        ("IMAGE_SAFETY", Stop::ContentFilter),
        ("IMAGE_PROHIBITED_CONTENT", Stop::ContentFilter),
        ("IMAGE_RECITATION", Stop::ContentFilter),
        ("MALFORMED_FUNCTION_CALL", Stop::MalformedToolCall),
        ("UNEXPECTED_TOOL_CALL", Stop::MalformedToolCall),
        ("TOO_MANY_TOOL_CALLS", Stop::MalformedToolCall),
        ("MALFORMED_RESPONSE", Stop::MalformedToolCall),
        ("OTHER", Stop::Error),
        ("IMAGE_OTHER", Stop::Error),
        ("NO_IMAGE", Stop::Error),
        ("CONTINUATION", Stop::Pause),
        ("REASON_OF_TOMORROW", Stop::Other),
    ];
    for (reason, stop) in table {
        let completion = parts(&[json!([{ "text": "x" }])], reason).1.unwrap();
        assert_eq!((completion.stop, completion.stop_raw.as_str()), (stop, reason));
    }
}

#[test]
fn a_stop_never_makes_a_cut_or_blocked_answer_whole() {
    let finish = |reason: &str| {
        json!({ "candidates": [{ "content": { "parts": [{ "text": "x" }] }, "finishReason": reason }] }).to_string()
    };
    let last = |reasons: &[&str]| {
        let chunks: Vec<String> = reasons.iter().map(|reason| finish(reason)).collect();
        stream(&chunks.iter().map(String::as_str).collect::<Vec<_>>()).1.unwrap().stop
    };
    assert_eq!(last(&["MAX_TOKENS", "STOP"]), Stop::MaxTokens);
    assert_eq!(last(&["STOP", "STOP"]), Stop::EndTurn);
    assert_eq!(last(&["STOP", "SAFETY"]), Stop::ContentFilter);
}

#[test]
fn a_blocked_prompt_is_a_filters_stop_and_an_empty_stop_is_no_answer() {
    let blocked = r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":5}}"#;
    let completion = stream(&[blocked]).1.unwrap();
    assert_eq!(
        (completion.stop, completion.stop_raw.as_str()),
        (Stop::ContentFilter, "prompt_blocked:PROHIBITED_CONTENT")
    );
    assert_eq!(unary(blocked.as_bytes()).1.unwrap().stop, Stop::ContentFilter);
    let failure = parts(&[json!([{ "text": "" }])], "STOP").1.unwrap_err();
    assert_eq!(
        (failure.kind, failure.code.as_deref()),
        (FailureKind::ServerError, Some("empty_response"))
    );
}

#[test]
fn an_error_in_a_chunk_fails_the_answer_after_any_content() {
    let text = r#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}"#;
    let error = r#"{"error":{"code":429,"message":"Slow down.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}"#;
    let list = format!("[{error}]");
    let first = format!("[{text},{error}]");
    let failures = [
        stream(&[error]).1,
        stream(&[text, error]).1,
        stream(&[&list]).1,
        unary(error.as_bytes()).1,
        unary(list.as_bytes()).1,
        unary(first.as_bytes()).1,
    ];
    for failure in failures {
        let failure = failure.unwrap_err();
        assert_eq!(failure.kind, FailureKind::RateLimit);
        assert_eq!(failure.code.as_deref(), Some("RESOURCE_EXHAUSTED"));
        assert_eq!(failure.retry_after, Some(std::time::Duration::from_secs(7)));
    }
}

#[test]
fn only_the_first_candidate_counts() {
    let chunk = json!({ "candidates": [
        { "index": 1, "content": { "parts": [{ "text": "second" }] }, "finishReason": "SAFETY" },
        { "index": 0, "content": { "parts": [{ "text": "first" }] }, "finishReason": "STOP" },
    ] });
    let (decoded, ended) = stream(&[&chunk.to_string()]);
    assert_eq!((decoded.joined("text").as_str(), ended.unwrap().stop), ("first", Stop::EndTurn));
}

#[test]
fn usage_is_cumulative_and_counts_no_token_twice() {
    let read = |usage: Value| super::super::usage::read(&usage.to_string());
    let reported = |input, output, cached, reasoning| {
        Some(ReportedUsage {
            input,
            output,
            cached,
            cache_write: 0,
            cache_write_hour: 0,
            reasoning,
        })
    };
    assert_eq!(
        read(
            json!({ "promptTokenCount": 100, "cachedContentTokenCount": 60, "toolUsePromptTokenCount": 7,
            "candidatesTokenCount": 20, "thoughtsTokenCount": 30, "totalTokenCount": 157 })
        ),
        reported(47, 50, 60, Some(30))
    );
    assert_eq!(read(json!({ "promptTokenCount": 9 })), reported(9, 0, 0, None));
    assert_eq!(
        read(json!({ "promptTokenCount": 5, "cachedContentTokenCount": 9 })),
        reported(0, 0, 9, None)
    );
    assert_eq!(read(json!({ "trafficType": "ON_DEMAND" })), None);
    assert_eq!(read(json!("none")), None);
    let chunk = |n: u64| {
        json!({ "usageMetadata": { "promptTokenCount": 5, "candidatesTokenCount": n }, "candidates": [{ "content": { "parts": [{ "text": "x" }] }, "finishReason": "STOP" }] }).to_string()
    };
    let (decoded, _) = stream(&[&chunk(1), &chunk(4), r#"{"usageMetadata":{"trafficType":"x"}}"#]);
    assert_eq!(decoded.usage, reported(5, 4, 0, None));
}

#[test]
fn invalid_json_is_repaired_or_refused_and_never_skipped() {
    let with = |text: &str| {
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":{text}}}]}},"finishReason":"STOP"}}]}}"#
        )
    };
    assert_eq!(stream(&[&with(r#""\ud83d x""#)]).0.joined("text"), "\u{fffd} x");
    let mut invalid = with("\"?\"").into_bytes();
    let at = invalid.iter().position(|byte| *byte == b'?').unwrap();
    invalid[at] = 0xff;
    assert_eq!(decode([("", invalid.as_slice())]).0.joined("text"), "\u{fffd}");
    let twice = r#"{"responseId":"a","responseId":"b","candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}"#;
    assert_eq!(stream(&[twice]).0.response_id, "b");
    let code = |ended: Result<Completion, Failure>| ended.unwrap_err().code;
    assert_eq!(code(stream(&["{nonsense}"]).1).as_deref(), Some("malformed_event"));
    assert_eq!(code(stream(&[&with("5")]).1).as_deref(), Some("malformed_event"));
    assert_eq!(code(stream(&[r#"{"what":"ever"}"#]).1).as_deref(), Some("stream_truncated"));
    assert_eq!(code(unary(br#"{"what":"ever"}"#).1).as_deref(), Some("not_a_response"));
    assert_eq!(code(unary(br#"[{"candidates":["#).1).as_deref(), Some("stream_truncated"));
    assert_eq!(code(stream(&["[DONE]"]).1).as_deref(), Some("stream_truncated"));
}

fn own(name: &str) -> Vec<recorded::Event> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/google");
    recorded::events(&std::fs::read(folder.join(name)).unwrap())
}

const STREAMS: [&str; 4] =
    ["parallel-calls.sse", "thoughts-and-text.sse", "partial-arguments.sse", "code-execution.sse"];

proptest! {
    #[test]
    fn lost_duplicated_or_reordered_events_never_break_a_block(
        picks in proptest::collection::vec((0..4_usize, any::<proptest::sample::Index>()), 0..24),
    ) {
        let streams = STREAMS.map(own);
        let events: Vec<_> = picks.iter().map(|(stream, index)| index.get(&streams[*stream])).collect();
        // The sink checks that every delta has its open block.
        let (decoded, ended) = decode(events.iter().map(|(name, data)| (name.as_str(), data.as_slice())));
        let saw_end = events.iter().any(|(_, data)| String::from_utf8_lossy(data).contains("finishReason"));
        prop_assert!(saw_end || ended.is_err());
        prop_assert!(ended.is_ok() || decoded.of("call").all(|call| !call.closed));
        let mut ids: Vec<&str> = decoded.of("call").map(|call| call.id.as_str()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), count);
    }

    #[test]
    fn no_bytes_panic_the_decoder(data in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = decode([("", data.as_slice())]);
        let _ = unary(&data);
    }

    #[test]
    fn a_stream_with_any_byte_changed_is_decoded_or_refused(
        stream in 0..4_usize, at in any::<proptest::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut events = own(STREAMS[stream]);
        let position = at.index(events.len());
        let data = &mut events[position].1;
        let at = at.index(data.len());
        data[at] = byte;
        let _ = decode(events.iter().map(|(name, data)| (name.as_str(), data.as_slice())));
    }
}
