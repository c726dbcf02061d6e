//! Answers in every shape, also in those that no recording has.

use super::{joined, read, stream, unary};
use crate::framing::eventstream::tests::{event, frame};
use crate::{ReportedUsage, Stop};
use model::{Block, FailureKind};

const START: (&str, &str) = ("messageStart", r#"{"role":"assistant","p":"abc"}"#);
const END: (&str, &str) = ("messageStop", r#"{"stopReason":"end_turn"}"#);
const TOOLS: (&str, &str) = ("messageStop", r#"{"stopReason":"tool_use"}"#);
const USAGE: (&str, &str) = (
    "metadata",
    r#"{"usage":{"inputTokens":5,"outputTokens":7,"totalTokens":23,"cacheReadInputTokens":10,"cacheWriteInputTokens":1},"metrics":{"latencyMs":1}}"#,
);

fn call(id: &str, name: &str, arguments_json: &str, incomplete: bool) -> Block {
    Block::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments_json: arguments_json.to_owned(),
        incomplete,
        provider_data: None,
    }
}

fn thinking(text: &str, signature: Option<&str>) -> Block {
    Block::Thinking {
        thinking: text.to_owned(),
        signature: signature.map(str::to_owned),
        provider_data: None,
    }
}

fn delta(index: u32, delta: &str) -> String {
    format!(r#"{{"contentBlockIndex":{index},"delta":{delta},"p":"ab"}}"#)
}

fn tool_start(index: u32, id: &str, name: &str) -> String {
    let tool = format!(r#"{{"toolUse":{{"toolUseId":"{id}","name":"{name}"}}}}"#);
    format!(r#"{{"contentBlockIndex":{index},"start":{tool}}}"#)
}

fn stop(index: u32) -> String {
    format!(r#"{{"contentBlockIndex":{index}}}"#)
}

#[test]
fn a_whole_answer_has_its_blocks_usage_and_stop() {
    let events = [
        START,
        ("contentBlockDelta", &delta(0, r#"{"reasoningContent":{"text":"hm"}}"#)),
        ("contentBlockDelta", &delta(0, r#"{"reasoningContent":{"signature":"c2ln"}}"#)),
        ("contentBlockStop", &stop(0)),
        ("contentBlockDelta", &delta(1, r#"{"text":"On "}"#)),
        ("contentBlockDelta", &delta(1, r#"{"text":"it."}"#)),
        ("contentBlockStop", &stop(1)),
        ("contentBlockStart", &tool_start(2, "t1", "read")),
        ("contentBlockDelta", &delta(2, r#"{"toolUse":{"input":"{\"a\""}}"#)),
        ("contentBlockStart", &tool_start(3, "t2", "list")),
        ("contentBlockDelta", &delta(2, r#"{"toolUse":{"input":":1}"}}"#)),
        ("contentBlockStop", &stop(3)),
        ("contentBlockStop", &stop(2)),
        TOOLS,
        USAGE,
    ];
    let (decoded, ended) = stream(&events);
    assert_eq!(
        decoded.blocks,
        [
            thinking("hm", Some("c2ln")),
            Block::text("On it."),
            call("t1", "read", r#"{"a":1}"#, false),
            call("t2", "list", "", false),
        ]
    );
    let usage = ReportedUsage {
        input: 5,
        output: 7,
        cached: 10,
        cache_write: 1,
        cache_write_hour: 0,
        reasoning: None,
    };
    assert_eq!(decoded.usage, Some(usage));
    let completion = ended.unwrap();
    assert_eq!((completion.stop, completion.stop_raw.as_str()), (Stop::ToolUse, "tool_use"));
}

#[test]
fn encrypted_reasoning_stays_byte_for_byte_and_its_pieces_are_joined() {
    let piece =
        |text: &str| delta(0, &format!(r#"{{"reasoningContent":{{"redactedContent":"{text}"}}}}"#));
    let redacted = |pieces: &[&str]| {
        let pieces: Vec<String> = pieces.iter().map(|text| piece(text)).collect();
        let mut events = vec![START];
        events.extend(pieces.iter().map(|piece| ("contentBlockDelta", piece.as_str())));
        let stop = stop(0);
        events.extend([("contentBlockStop", stop.as_str()), END]);
        stream(&events).0.blocks
    };
    let data =
        |data: &str| vec![Block::RedactedThinking { data: data.to_owned(), provider_data: None }];
    assert_eq!(redacted(&["RW5jcnlwdGVk"]), data("RW5jcnlwdGVk"));
    // "En" + "crypted": each with its own padding.
    assert_eq!(redacted(&["RW4=", "Y3J5cHRlZA=="]), data("RW5jcnlwdGVk"));
    assert_eq!(redacted(&["not base64!"]), data("not base64!"));
}

#[test]
fn a_provider_run_tool_is_stored_whole_and_is_no_call_of_the_context() {
    let start = r#"{"contentBlockIndex":0,"start":{"toolUse":{"name":"nova_grounding","toolUseId":"s1","type":"server_tool_use"}}}"#;
    let result = r#"{"contentBlockIndex":1,"start":{"toolResult":{"status":"success","toolUseId":"s1","type":"nova_grounding_result"}}}"#;
    let cited = r#"{"citation":{"location":{"web":{"domain":"a"}}}}"#;
    let events = [
        START,
        ("contentBlockStart", start),
        ("contentBlockDelta", &delta(0, r#"{"toolUse":{"input":"{\"query\":\"q\"}"}}"#)),
        ("contentBlockStop", &stop(0)),
        ("contentBlockStart", result),
        ("contentBlockDelta", &delta(1, r#"{"toolResult":[{"text":"[HIDDEN]"}]}"#)),
        ("contentBlockStop", &stop(1)),
        ("contentBlockDelta", &delta(2, r#"{"text":"It is 4."}"#)),
        ("contentBlockStop", &stop(2)),
        ("contentBlockDelta", &delta(3, cited)),
        ("contentBlockDelta", &delta(3, cited)),
        ("contentBlockStop", &stop(3)),
        ("contentBlockDelta", &delta(4, cited)),
        ("contentBlockDelta", &delta(4, r#"{"text":"See there."}"#)),
        ("contentBlockStop", &stop(4)),
        END,
        USAGE,
    ];
    let (decoded, ended) = stream(&events);
    let opaque = |json: &str| Block::Opaque { raw_json: json.to_owned() };
    let citation = r#"{"location":{"web":{"domain":"a"}}}"#;
    assert_eq!(
        decoded.blocks,
        [
            opaque(
                r#"{"toolUse":{"name":"nova_grounding","toolUseId":"s1","type":"server_tool_use","input":{"query":"q"}}}"#
            ),
            opaque(
                r#"{"toolResult":{"status":"success","toolUseId":"s1","type":"nova_grounding_result","content":[{"text":"[HIDDEN]"}]}}"#
            ),
            Block::text("It is 4."),
            opaque(&format!(r#"{{"citationsContent":{{"citations":[{citation},{citation}]}}}}"#)),
            Block::Text {
                text: "See there.".to_owned(),
                provider_data: Some(format!(r#"{{"citations":[{citation}]}}"#)),
                origin: None,
            },
        ]
    );
    assert_eq!(ended.unwrap().stop, Stop::EndTurn);

    // With a cut input it is left out.
    let cut = [
        START,
        events[1],
        ("contentBlockDelta", &delta(0, r#"{"toolUse":{"input":"{\"q"}}"#)),
        ("contentBlockStop", &stop(0)),
        END,
    ];
    assert_eq!(stream(&cut).0.blocks, []);
}

#[test]
fn a_whole_body_is_read_as_its_stream_would_be() {
    let body = r#"{"metrics":{"latencyMs":1},"output":{"message":{"role":"assistant","content":[
        {"reasoningContent":{"reasoningText":{"text":"hm","signature":"c2ln"}}},
        {"reasoningContent":{"redactedContent":"RW4="}},
        {"text":"On it."},
        {"citationsContent":{"content":[{"text":"See "},{"text":"there."}],"citations":[{"title":"a"}]}},
        {"citationsContent":{"citations":[{"title":"b"}]}},
        {"toolUse":{"toolUseId":"t1","name":"read","input":{"a": 1}}}
    ]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}"#;
    let (decoded, ended) = unary(body.as_bytes());
    assert_eq!(
        decoded.blocks,
        [
            thinking("hm", Some("c2ln")),
            Block::RedactedThinking { data: "RW4=".to_owned(), provider_data: None },
            Block::text("On it."),
            Block::Text {
                text: "See there.".to_owned(),
                provider_data: Some(r#"{"citations":[{"title":"a"}]}"#.to_owned()),
                origin: None,
            },
            Block::Opaque {
                raw_json: r#"{"citationsContent":{"citations":[{"title":"b"}]}}"#.to_owned()
            },
            call("t1", "read", r#"{"a": 1}"#, false),
        ]
    );
    assert_eq!(ended.unwrap().stop, Stop::ToolUse);
    assert_eq!(decoded.usage.map(|usage| (usage.input, usage.output)), Some((1, 2)));
}

#[test]
fn a_body_that_is_no_answer_is_a_failure() {
    let failed = |body: &str| {
        let failure = unary(body.as_bytes()).1.unwrap_err();
        (failure.kind, failure.code.unwrap(), failure.message)
    };
    let (kind, _, message) =
        failed(r#"{"message":"Too many tokens, please wait before trying again."}"#);
    assert_eq!(
        (kind, message.as_str()),
        (FailureKind::RateLimit, "Too many tokens, please wait before trying again.")
    );
    for body in ["", "<html>", "{}", r#"{"output":{}}"#] {
        let (kind, code, _) = failed(body);
        assert_eq!((kind, code.as_str()), (FailureKind::ServerError, "invalid_response"), "{body}");
    }
}

#[test]
fn every_stop_reason_has_its_meaning_and_calls_win_over_a_plain_end() {
    let table = [
        ("end_turn", Stop::EndTurn),
        ("tool_use", Stop::ToolUse),
        ("max_tokens", Stop::MaxTokens),
        ("stop_sequence", Stop::StopSequence),
        ("guardrail_intervened", Stop::ContentFilter),
        ("content_filtered", Stop::ContentFilter),
        ("malformed_model_output", Stop::Error),
        ("malformed_tool_use", Stop::MalformedToolCall),
        ("model_context_window_exceeded", Stop::ContextFull),
        ("something_new", Stop::Other),
    ];
    for (reason, expected) in table {
        let payload = format!(r#"{{"stopReason":"{reason}"}}"#);
        let completion = stream(&[START, ("messageStop", &payload), USAGE]).1.unwrap();
        assert_eq!((completion.stop, completion.stop_raw.as_str()), (expected, reason));
    }
    let called = [
        START,
        ("contentBlockStart", &tool_start(0, "t", "read")),
        ("contentBlockStop", &stop(0)),
        END,
    ];
    assert_eq!(stream(&called).1.unwrap().stop, Stop::ToolUse);
}

#[test]
fn the_stop_is_the_end_and_usage_may_follow_it() {
    let text = delta(0, r#"{"text":"hi"}"#);
    let answer_events = [
        START,
        ("contentBlockDelta", text.as_str()),
        ("contentBlockStop", r#"{"contentBlockIndex":0}"#),
    ];
    let with = |more: &[(&'static str, &'static str)]| {
        let mut events = answer_events.to_vec();
        events.extend_from_slice(more);
        let (decoded, ended) = stream(&events);
        assert_eq!(joined(&decoded, "text"), "hi");
        (
            decoded.usage.map(|usage| usage.output),
            ended.map_err(|failure| failure.code.unwrap()).map(|it| it.stop),
        )
    };
    assert_eq!(with(&[]), (None, Err("stream_truncated".to_owned())));
    assert_eq!(with(&[USAGE]), (Some(7), Err("stream_truncated".to_owned())));
    assert_eq!(with(&[END]), (None, Ok(Stop::EndTurn)));
    assert_eq!(with(&[USAGE, END]), (Some(7), Ok(Stop::EndTurn)));
    assert_eq!(with(&[END, USAGE, TOOLS]), (Some(7), Ok(Stop::EndTurn)));
    assert_eq!(
        with(&[END, ("metadata", r#"{"usage":{"inputTokens":null}}"#)]),
        (None, Ok(Stop::EndTurn))
    );
}

#[test]
fn unknown_repeated_and_reordered_events_lose_and_duplicate_nothing() {
    let events = [
        START,
        START,
        ("somethingNew", "not even JSON"),
        ("contentBlockStart", r#"{"contentBlockIndex":9,"start":{"somethingNew":{}}}"#),
        ("contentBlockDelta", &delta(9, r#"{"somethingNew":{"text":"x"}}"#)),
        ("contentBlockDelta", &delta(0, r#"{"text":""}"#)),
        ("contentBlockStop", &stop(0)),
        ("contentBlockStop", &stop(7)),
        ("contentBlockStart", &tool_start(1, "t1", "read")),
        ("contentBlockStart", &tool_start(1, "t1", "read")),
        ("contentBlockDelta", &delta(1, r#"{"toolUse":{"input":"{}"}}"#)),
        ("contentBlockStop", &stop(1)),
        ("contentBlockStop", &stop(1)),
        ("contentBlockDelta", &delta(1, r#"{"toolUse":{"input":"late"}}"#)),
        TOOLS,
        USAGE,
    ];
    let (decoded, ended) = stream(&events);
    assert_eq!(
        (decoded.blocks, ended.unwrap().stop),
        (vec![call("t1", "read", "{}", false)], Stop::ToolUse)
    );
}

#[test]
fn a_call_without_its_start_or_its_end_is_incomplete() {
    let open = [
        START,
        ("contentBlockStart", &tool_start(0, "t1", "read")),
        ("contentBlockDelta", &delta(0, r#"{"toolUse":{"input":"{}"}}"#)),
        TOOLS,
    ];
    assert_eq!(stream(&open).0.blocks, [call("t1", "read", "{}", true)]);
    let late = [
        START,
        ("contentBlockDelta", &delta(0, r#"{"toolUse":{"input":"{\"a\":"}}"#)),
        ("contentBlockStart", &tool_start(0, "t1", "read")),
        ("contentBlockDelta", &delta(0, r#"{"toolUse":{"input":"{}"}}"#)),
        ("contentBlockStop", &stop(0)),
        TOOLS,
    ];
    assert_eq!(stream(&late).0.blocks, [call("t1", "read", "{}", true)]);
    let orphan = [
        START,
        ("contentBlockDelta", &delta(0, r#"{"toolUse":{"input":"{}"}}"#)),
        ("contentBlockStop", &stop(0)),
        TOOLS,
    ];
    assert_eq!(stream(&orphan).0.blocks, []);
}

#[test]
fn a_second_answer_in_the_same_stream_is_never_joined_to_the_first() {
    let text = delta(0, r#"{"text":"hi"}"#);
    let (decoded, ended) = stream(&[START, ("contentBlockDelta", &text), START]);
    assert_eq!(joined(&decoded, "text"), "hi");
    assert_eq!(ended.unwrap_err().code.as_deref(), Some("stream_spliced"));
}

#[test]
fn lone_surrogates_are_repaired_and_an_invalid_known_event_fails() {
    let text = delta(0, r#"{"text":"a\ud83d"}"#);
    let (decoded, _) = stream(&[START, ("contentBlockDelta", &text), END]);
    assert_eq!(joined(&decoded, "text"), "a\u{fffd}");
    for broken in ["", "{", r#"{"contentBlockIndex":"x"}"#, r#"{"delta":{"text":5}}"#] {
        let failure = stream(&[START, ("contentBlockDelta", broken), END]).1.unwrap_err();
        assert_eq!(failure.code.as_deref(), Some("malformed_event"), "{broken}");
    }
}

#[test]
fn an_exception_in_the_stream_ends_it_with_its_kind_and_the_earlier_content_stays() {
    let exception = |name: &str, payload: &str| {
        let headers = [
            (":exception-type", name),
            (":content-type", "application/json"),
            (":message-type", "exception"),
        ];
        let bytes = [
            event(START.0, START.1),
            event("contentBlockDelta", &delta(0, r#"{"text":"hi"}"#)),
            frame(&headers, payload.as_bytes()),
        ];
        let (decoded, ended) = read(bytes.concat().chunks(5));
        assert_eq!(joined(&decoded, "text"), "hi");
        let failure = ended.unwrap_err();
        (failure.kind, failure.code.unwrap(), failure.message)
    };
    assert_eq!(
        exception("throttlingException", r#"{"message":"Too many requests, slow down."}"#),
        (
            FailureKind::RateLimit,
            "throttlingException".to_owned(),
            "Too many requests, slow down.".to_owned()
        )
    );
    let tool_order = "messages.2: `tool_use` ids were found without `tool_result` blocks";
    let (kind, ..) = exception("validationException", &format!(r#"{{"message":"{tool_order}"}}"#));
    assert_eq!(kind, FailureKind::Format);
    // An unknown kind of message is skipped, like an unknown event.
    let bytes =
        [event(START.0, START.1), frame(&[(":message-type", "news")], b""), event(END.0, END.1)];
    assert_eq!(read([bytes.concat().as_slice()]).1.unwrap().stop, Stop::EndTurn);
}
