//! What each commit point writes, and what happens where it cannot be written.

use super::*;

fn tool(name: &str, mode: &str, replay: &str) -> Value {
    json!({ "name": name, "parameters": { "type": "object" }, "executionMode": mode, "replay": replay })
}

#[tokio::test]
async fn each_commit_point_writes_the_new_facts_and_shares_a_write_where_that_is_safe() {
    let script = json!([
        { "toolCalls": [{ "name": "echo" }, { "name": "fail" }] },
        { "toolCalls": [{ "name": "echo" }] },
        "done",
    ]);
    for (replay, expected) in [
        // A result with effects is written before the model is called again; one without effects is written with the next facts.
        (
            "unsafe",
            [
                "W0",
                "assistant, echo running, fail pending",
                "tool, echo completed, fail running",
                "tool, fail failed",
                "assistant, echo running",
                "tool, echo completed",
            ]
            .as_slice(),
        ),
        (
            "pure",
            [
                "W0",
                "assistant, echo running, fail pending",
                "tool, echo completed, fail running",
                "tool, assistant, fail failed, echo running",
            ]
            .as_slice(),
        ),
    ] {
        let rig = Rig::new(&script);
        let tools = json!({ "tools": [tool("echo", "sequential", replay), tool("fail", "sequential", replay)] });
        let (result, _) = rig.start(&tools).end().await;
        assert_eq!(
            (&result["stopReason"], &result["persisted"]),
            (&json!("end_turn"), &json!(true))
        );
        assert_eq!(*rig.journal.steps.lock().unwrap(), *expected, "{replay}");
        let turns = rig.journal.turns.lock().unwrap();
        let sequences: Vec<u32> =
            turns[0].messages.iter().map(|message| message.sequence).collect();
        assert_eq!(sequences, (0..7).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn parallel_calls_start_with_one_record() {
    let rig = Rig::new(&json!([
        { "toolCalls": [{ "name": "echo" }, { "name": "echo" }, { "name": "echo" }] }, "done",
    ]));
    let tools = json!({ "tools": [tool("echo", "parallel", "pure")] });
    rig.start(&tools).end().await;
    assert_eq!(
        *rig.journal.steps.lock().unwrap(),
        ["W0", "assistant, echo running, echo running, echo running"]
    );
}

#[tokio::test]
async fn a_tool_with_effects_does_not_start_without_its_record_and_a_pure_one_does() {
    for (replay, kind, expected, calls) in [
        ("unsafe", StorageErrorKind::Full, ("error", json!("storage_full")), 0),
        ("idempotent", StorageErrorKind::StaleWriter, ("error", json!("stale_writer")), 0),
        ("pure", StorageErrorKind::StaleWriter, ("error", json!("stale_writer")), 0),
        ("pure", StorageErrorKind::Full, ("end_turn", Value::Null), 1),
    ] {
        let rig = Rig::new(&json!([{ "toolCalls": [{ "name": "echo" }] }, "done"]));
        *rig.journal.refuses.lock().unwrap() = Some(kind);
        let tools = json!({ "tools": [tool("echo", "sequential", replay)] });
        let (result, _) = rig.start(&tools).end().await;
        let code = result["error"]["detail"]["code"].clone();
        assert_eq!((result["stopReason"].as_str().unwrap(), code), expected, "{replay}");
        assert_eq!(rig.host.calls.load(Ordering::Relaxed), calls, "{replay}");
    }
}

#[tokio::test]
async fn a_turn_that_cannot_be_opened_is_still_answered() {
    let rig = Rig::new(&json!(["hello"]));
    rig.journal.full.store(true, Ordering::Relaxed);
    let (result, _) = rig.start(&json!({})).end().await;
    assert_eq!(
        (&result["stopReason"], &result["persisted"], &result["persistError"]["code"]),
        (&json!("end_turn"), &json!(false), &json!("storage_full"))
    );
}
