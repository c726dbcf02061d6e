//! Results of a broker: the broker's own shape is enough, and every refusal names its field.

use serde_json::{Value, json};

use super::*;
use crate::{AgentMessage, StopReason, parse_context};

const NOW: i64 = 1_780_000_000_000;

fn parsed(result: &str) -> Parsed<TurnEnd> {
    let mut last = 0_u32;
    let mut new_id = || {
        last += 1;
        format!("{last:026}")
    };
    parse_result(&context(), result, &mut Defaults { new_id: &mut new_id, now_ms: NOW })
}

fn context() -> AssembledContext {
    let json = json!({
        "systemPrompt": "", "history": [], "currentMessage": {"role": "user", "content": "hi"},
        "tools": [{"name": "read", "parameters": {}}], "model": "claude", "provider": "anthropic",
        "tokenBudget": {}, "timeoutMs": 1000, "runId": "run", "sessionLabel": "main",
        "parentTurnId": null, "role": "manager", "toolsetName": "full",
        "permissionsGranted": [{"fs": "read"}], "sourceEventId": "event", "workspacePath": "/work",
    });
    let mut new_id = || "q0".to_owned();
    parse_context(&json.to_string(), &mut Defaults { new_id: &mut new_id, now_ms: NOW }).unwrap()
}

/// A result with the broker interface's fields and no others.
fn seed_result() -> Value {
    json!({
        "messages": [
            {"id": "m0", "role": "user", "content": "hi", "sequence": 0, "createdAt": 1},
            {"id": "m1", "role": "assistant", "content": "I look.", "thinking": "hm", "sequence": 1, "createdAt": 2},
            {"id": "m2", "role": "tool", "content": "of a", "toolCallId": "c1", "sequence": 2, "createdAt": 3},
            {"id": "m3", "role": "tool", "content": "no b", "toolCallId": "c2", "sequence": 3, "createdAt": 4},
            {"id": "m4", "role": "assistant", "content": "done", "sequence": 4, "createdAt": 5},
        ],
        "toolCalls": [
            {"id": "c1", "toolName": "read", "params": {"path": "a"}, "result": "of a", "status": "completed",
             "startedAt": 2, "completedAt": 3, "sequence": 0},
            {"id": "c2", "toolName": "read", "params": {"path": "b"}, "error": "no b", "status": "failed",
             "startedAt": 2, "completedAt": 3, "sequence": 1},
        ],
        "usage": {"inputTokens": 1, "outputTokens": 2, "cachedInputTokens": 3, "cacheWriteTokens": 4,
                  "reasoningTokens": 1, "totalTokens": 10},
        "stopReason": "end_turn",
        "durationMs": 50,
    })
}

fn parse(result: &Value) -> Parsed<TurnEnd> {
    parsed(&result.to_string())
}

#[test]
fn a_result_of_the_seed_becomes_a_whole_commit() {
    let commit = parse(&seed_result()).unwrap();
    assert_eq!(commit.turn_id.len(), 26);
    assert_eq!((commit.header.started_at, commit.completed_at), (NOW - 50, NOW));
    assert_eq!((commit.status, commit.stop_reason), (TurnStatus::Completed, StopReason::EndTurn));
    assert_eq!(commit.query_message_ids, ["m0"]);
    assert_eq!(commit.response_message_id.as_deref(), Some("m4"));
    assert_eq!(commit.settings.tools_available, ["read"]);
    assert_eq!(commit.settings.permissions_granted, r#"[{"fs":"read"}]"#);
    assert!(commit.move_pointer && commit.header.expected_head.is_none());
    let requests: Vec<_> = commit.tool_calls.iter().map(|call| call.message_id.as_str()).collect();
    assert_eq!(requests, ["m1", "m1"]);
    let call = |id: &str, path: &str| Block::ToolCall {
        id: id.to_owned(),
        name: "read".to_owned(),
        arguments_json: format!(r#"{{"path":"{path}"}}"#),
        incomplete: false,
        provider_data: None,
    };
    let result = |id: &str, text: &str, is_error| {
        vec![Block::ToolResult {
            tool_call_id: id.to_owned(),
            tool_name: "read".to_owned(),
            content: vec![Block::text(text)],
            is_error,
        }]
    };
    let blocks: Vec<_> = commit.messages.iter().map(|message| message.blocks.clone()).collect();
    assert_eq!(
        blocks,
        [
            vec![Block::text("hi")],
            vec![
                Block::Thinking { thinking: "hm".to_owned(), signature: None, provider_data: None },
                Block::text("I look."),
                call("c1", "a"),
                call("c2", "b"),
            ],
            result("c1", "of a", false),
            result("c2", "no b", true),
            vec![Block::text("done")],
        ]
    );
}

#[test]
fn messages_that_have_blocks_keep_them() {
    let plain = parse(&seed_result()).unwrap();
    let mut result = seed_result();
    let messages: Vec<_> = plain.messages.iter().cloned().map(AgentMessage::from).collect();
    result["messages"] = serde_json::to_value(messages).unwrap();
    result["turnId"] = "01KB0000000000000000000000".into();
    let commit = parse(&result).unwrap();
    assert_eq!(commit.messages, plain.messages);
    assert_eq!(commit.turn_id, "01KB0000000000000000000000");
}

#[test]
fn a_failed_turn_moves_the_pointer_only_with_something_to_show() {
    let mut result = seed_result();
    result["stopReason"] = "error".into();
    result["error"] = json!({"kind": "rate_limit", "message": "too many", "retryable": true});
    let commit = parse(&result).unwrap();
    assert!(commit.move_pointer);
    assert_eq!(commit.status, TurnStatus::Failed);
    let error = commit.error.unwrap();
    assert_eq!(
        (error.kind, error.detail.kind),
        (AgentErrorKind::RateLimit, crate::FailureKind::RateLimit)
    );
    result["messages"].as_array_mut().unwrap().truncate(1);
    result["toolCalls"] = json!([]);
    assert!(!parse(&result).unwrap().move_pointer);
    result["stopReason"] = "aborted".into();
    assert!(parse(&result).unwrap().move_pointer);
}

#[test]
fn every_wrong_field_is_named() {
    let cases: &[(&str, Option<Value>, &str)] = &[
        ("/messages", None, "result.messages"),
        ("/messages", Some(json!("x")), "result.messages"),
        ("/messages/2", Some(json!(7)), "result.messages[2]"),
        ("/messages/2/role", Some(json!("bot")), "result.messages[2].role"),
        ("/messages/2/role", None, "result.messages[2].role"),
        ("/messages/1/content", None, "result.messages[1].content"),
        (
            "/messages/1/content",
            Some(json!([{"type": "odd"}])),
            "result.messages[1].content[0].type",
        ),
        ("/messages/1/id", None, "result.messages[1].id"),
        ("/messages/1/id", Some(json!("")), "result.messages[1].id"),
        ("/messages/1/id", Some(json!("m0")), "result.messages[1].id"),
        ("/messages/1/sequence", Some(json!(0)), "result.messages[1].sequence"),
        ("/messages/1/sequence", None, "result.messages[1].sequence"),
        ("/messages/1/createdAt", Some(json!("now")), "result.messages[1].createdAt"),
        ("/messages/2/toolCallId", None, "result.messages[2].toolCallId"),
        ("/toolCalls", None, "result.toolCalls"),
        ("/toolCalls/1/status", Some(json!("done")), "result.toolCalls[1].status"),
        ("/toolCalls/1/params", Some(json!([])), "result.toolCalls[1].params"),
        ("/toolCalls/1/sequence", Some(json!(0)), "result.toolCalls[1].sequence"),
        ("/toolCalls/0/toolName", None, "result.toolCalls[0].toolName"),
        ("/usage", None, "result.usage"),
        ("/usage/inputTokens", Some(json!(-1)), "result.usage.inputTokens"),
        ("/stopReason", Some(json!("stop")), "result.stopReason"),
        ("/durationMs", None, "result.durationMs"),
        ("/turnId", Some(json!("")), "result.turnId"),
        ("/cost", Some(json!("1 $")), "result.cost"),
        (
            "/error",
            Some(json!({"kind": "odd", "message": "", "retryable": true})),
            "result.error.kind",
        ),
        ("/compaction", Some(json!({"summary": 1})), "result.compaction.summary"),
    ];
    for (pointer, value, path) in cases {
        let mut result = seed_result();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = result.pointer_mut(parent).unwrap();
        match (parent, value) {
            (Value::Object(fields), Some(value)) => {
                drop(fields.insert(key.to_owned(), value.clone()))
            }
            (Value::Object(fields), None) => drop(fields.remove(key)),
            (Value::Array(items), Some(value)) => {
                items[key.parse::<usize>().unwrap()] = value.clone()
            }
            other => unreachable!("{other:?}"),
        }
        let error = parse(&result).unwrap_err();
        assert_eq!(&error.path, path, "{pointer}: {error}");
    }
    assert_eq!(parsed("nonsense").unwrap_err().path, "result");
}
