//! Scripts: the order of their replies, their failures, and the recorded requests.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Script, ScriptedProvider};
use crate::{BlockStart, Completion, Delta, DeltaSink, Failure, ModelRequest, Provider as _, Stop};
use model::{Block, FailureKind, Message, Role};

fn provider(script: &str) -> ScriptedProvider {
    ScriptedProvider::new(serde_json::from_str::<Script>(script).unwrap())
}

fn request() -> ModelRequest {
    ModelRequest {
        model: "m".to_owned(),
        system: "be brief".to_owned(),
        tools: Arc::new([]),
        messages: vec![Bytes::from_static(b"{\"a\":1}"), Bytes::from_static(b"2,3")],
        max_tokens: 16,
        temperature: None,
        thinking: None,
        reasoning_model: false,
        ..ModelRequest::default()
    }
}

/// Writes every delta as a short text.
#[derive(Default)]
struct Received(String);

impl DeltaSink for Received {
    fn delta(&mut self, delta: Delta<'_>) {
        let out = &mut self.0;
        match delta {
            Delta::Started { response_id, model } => write!(out, "{response_id}/{model}"),
            Delta::BlockStart { index, start: BlockStart::Text } => write!(out, " text{index}["),
            Delta::BlockStart { index, start: BlockStart::Thinking } => {
                write!(out, " think{index}[")
            }
            Delta::BlockStart { index, start: BlockStart::ToolCall { id, name } } => {
                write!(out, " {name}{index}({id})[")
            }
            Delta::Text { text, .. } | Delta::Thinking { text, .. } => write!(out, "<{text}>"),
            Delta::Arguments { json, .. } => write!(out, "<{json}>"),
            Delta::Signature { signature, .. } => write!(out, "~{signature}"),
            Delta::BlockStop { .. } => write!(out, "]"),
            Delta::Usage(usage) => write!(out, " usage {}+{}", usage.input, usage.output),
            other => write!(out, " {other:?}"),
        }
        .unwrap();
    }
}

async fn stream_text(provider: &ScriptedProvider) -> (Result<Completion, Failure>, String) {
    let mut received = Received::default();
    let outcome = provider.stream(&request(), None, &mut received).await;
    (outcome, received.0)
}

fn done(stop: Stop, raw: &str) -> Result<Completion, Failure> {
    Ok(Completion { stop, stop_raw: raw.to_owned(), status: 200 })
}

#[tokio::test]
async fn the_parts_of_a_reply_come_in_a_fixed_order() {
    let provider = provider(
        r#"[{
            "text": "héllo", "thinking": "hm", "signature": "sig", "chunkSize": 2,
            "toolCalls": [{"name": "add", "arguments": {"a":1}}, {"id": "x", "name": "raw", "argumentsText": "{\"a"}],
            "usage": {"inputTokens": 3, "outputTokens": 4}
        }]"#,
    );
    let expected = "scripted_1/m think0[<hm>~sig] text1[<hé><ll><o>] add2(call_1)[<{\"><a\"><:1><}>] \
                    raw3(x)[<{\"><a>] usage 3+4";
    assert_eq!(
        stream_text(&provider).await,
        (done(Stop::ToolUse, "tool_use"), expected.to_owned())
    );
}

#[tokio::test]
async fn steps_stay_in_order_and_texts_in_a_row_are_one_block() {
    let provider = provider(
        r#"[{"steps": [
            {"text": "a"}, {"usage": {"inputTokens": 1}}, {"text": "b"}, {"thinking": "c"},
            {"toolCall": {"name": "t"}}, {"text": "d"}, {"stop": "max_tokens"}, {"text": "never"}
        ]}]"#,
    );
    let expected = "scripted_1/m text0[<a> usage 1+0<b>] think1[<c>] t2(call_1)[<{}>] text3[<d>]";
    assert_eq!(
        stream_text(&provider).await,
        (done(Stop::MaxTokens, "max_tokens"), expected.to_owned())
    );
}

#[tokio::test]
async fn replies_are_used_once_each_unless_they_repeat() {
    let once = provider(r#"["one"]"#);
    assert_eq!(stream_text(&once).await.0, done(Stop::EndTurn, "end_turn"));
    let failure = stream_text(&once).await.0.unwrap_err();
    assert_eq!(
        (failure.code.as_deref(), failure.message.as_str(), failure.should_retry),
        (Some("script_exhausted"), "the script has `1` replies and this was call `2`", Some(false))
    );
    let again = provider(r#"{"replies": ["one", "two"], "repeat": true}"#);
    let mut received = Vec::new();
    for _ in 0..3 {
        received.push(stream_text(&again).await.1);
    }
    let expected =
        ["scripted_1/m text0[<one>]", "scripted_2/m text0[<two>]", "scripted_3/m text0[<one>]"];
    assert_eq!(received, expected);
}

#[tokio::test]
async fn failures_come_before_or_after_text_with_their_kind_status_and_wait() {
    let provider = provider(
        r#"[
            {"error": {"status": 429, "message": "slow down", "retryAfterMs": 70}},
            {"text": "half", "error": {"kind": "network", "code": "reset"}},
            {"steps": [{"text": "cut"}, {"truncate": true}]}
        ]"#,
    );
    let (outcome, received) = stream_text(&provider).await;
    let failure = outcome.unwrap_err();
    assert_eq!(
        (failure.kind, failure.status, failure.retry_after, received.as_str()),
        (FailureKind::RateLimit, Some(429), Some(Duration::from_millis(70)), "scripted_1/m")
    );
    let expected = Failure::new(FailureKind::Network, "reset", "the script fails here");
    assert_eq!(
        stream_text(&provider).await,
        (Err(expected), "scripted_2/m text0[<half>".to_owned())
    );
    let (outcome, received) = stream_text(&provider).await;
    assert_eq!(outcome.unwrap_err().code.as_deref(), Some("stream_truncated"));
    assert_eq!(received, "scripted_3/m text0[<cut>");
}

#[tokio::test(start_paused = true)]
async fn a_gate_waits_until_it_is_opened_and_a_delay_takes_its_time() {
    let provider = provider(
        r#"[{"steps": [{"text": "a"}, {"gate": "g"}, {"delayMs": 5000}]}, {"gate": "g", "text": "b"}]"#,
    );
    let start = base::clock::Clock::default().instant();
    let open = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        provider.open_gate("g");
    };
    let ((outcome, _), ()) = tokio::join!(stream_text(&provider), open);
    assert_eq!(outcome, done(Stop::EndTurn, "end_turn"));
    assert_eq!(start.elapsed(), Duration::from_millis(5700));
    // An open gate stays open.
    assert_eq!(stream_text(&provider).await.1, "scripted_2/m text0[<b>]");
}

#[tokio::test]
async fn every_request_is_recorded_and_the_record_is_bounded() {
    let provider = provider(r#"{"replies": ["x"], "repeat": true}"#);
    stream_text(&provider).await.0.unwrap();
    assert_eq!(
        provider.requests_json(),
        r#"[{"model":"m","system":"be brief","messages":[{"a":1},2,3],"tools":[],"maxTokens":16}]"#
    );
    for _ in 0..1_100 {
        stream_text(&provider).await.0.unwrap();
    }
    let recorded: Vec<serde_json::Value> = serde_json::from_str(&provider.requests_json()).unwrap();
    assert_eq!(recorded.len(), 1_000);
}

#[test]
fn messages_are_encoded_as_their_json_joined_by_commas() {
    let message = |id: &str| Message {
        id: id.to_owned(),
        role: Role::User,
        blocks: vec![Block::text("hi")],
        sequence: 0,
        created_at: 1,
        provenance: None,
        provider_stop_reason: None,
    };
    let bytes = provider("[]").encode_messages(&[message("a"), message("b")]);
    let back: Vec<Message> =
        serde_json::from_str(&format!("[{}]", String::from_utf8_lossy(&bytes))).unwrap();
    assert_eq!(back, [message("a"), message("b")]);
}

#[test]
fn an_ambiguous_script_is_refused() {
    let refused =
        |script: &str| serde_json::from_str::<Script>(script).err().map(|e| e.to_string());
    let cases = [
        (r#"[{"steps": [{}]}]"#, "is not one step"),
        (r#"[{"steps": [{"text": "a", "gate": "g"}]}]"#, "is not one step"),
        (r#"[{"steps": [{"signature": "s", "text": "a"}]}]"#, "has a `signature` without"),
        (r#"[{"steps": [], "text": "a"}]"#, "has `steps` beside other parts"),
        (r#"[{"text": "a", "chunkSize": 0}]"#, "`chunkSize` is 0"),
        (r#"[{"txt": "a"}]"#, "unknown field `txt`"),
        ("7", "expected a list of replies"),
    ];
    for (script, expected) in cases {
        let text = refused(script).unwrap_or_default();
        assert!(text.contains(expected), "{script}: {text}");
    }
}
