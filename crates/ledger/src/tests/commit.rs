//! W4: the rows that a commit writes, and its refusals.

use super::*;
use model::{AgentError, AgentErrorKind, AgentMessage, ErrorDetail, FailureKind, StorageErrorKind};

#[tokio::test]
async fn a_turn_is_read_as_it_was_committed() {
    let fixture = Fixture::new();
    let committed = turn("t1", "main", None);
    let receipt = fixture.commit(committed.clone()).await.unwrap();
    let head = Some("t1".to_owned());
    assert_eq!(receipt, CommitReceipt { turn_id: "t1".to_owned(), head, stale_head: None });
    let row = fixture.ledger.turn("t1").await.unwrap().unwrap();
    assert_eq!(
        row.messages,
        committed.messages.into_iter().map(AgentMessage::from).collect::<Vec<_>>()
    );
    insta::assert_json_snapshot!(serde_json::json!({
        "turn": row,
        "session": fixture.ledger.session("main").await.unwrap(),
        "tables": fixture.counts().await,
        "threads": fixture.rows("SELECT * FROM threads").await,
    }));
    assert!(fixture.ledger.turn("t2").await.unwrap().is_none());
    assert_eq!(fixture.ledger.session("other").await.unwrap(), None);
}

#[tokio::test]
async fn threads_accumulate_depth_tokens_and_ancestry() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    fixture.commit(turn("t2", "main", Some("t1"))).await.unwrap();
    fixture.commit(turn("t3", "main", Some("t2"))).await.unwrap();
    assert_eq!(
        fixture.rows("SELECT turn_id, ancestry, total_tokens, depth, persona_id FROM threads ORDER BY depth").await,
        r#"[{"turn_id":"t1","ancestry":"[\"t1\"]","total_tokens":127,"depth":0,"persona_id":"default"},{"turn_id":"t2","ancestry":"[\"t1\",\"t2\"]","total_tokens":254,"depth":1,"persona_id":"default"},{"turn_id":"t3","ancestry":"[\"t1\",\"t2\",\"t3\"]","total_tokens":381,"depth":2,"persona_id":"default"}]"#
    );
    assert_eq!(
        fixture.rows("SELECT id, has_children FROM turns ORDER BY id").await,
        r#"[{"id":"t1","has_children":1},{"id":"t2","has_children":1},{"id":"t3","has_children":0}]"#
    );
    assert_eq!(
        fixture.rows("SELECT session_label, thread_id FROM session_history ORDER BY id").await,
        r#"[{"session_label":"main","thread_id":"t1"},{"session_label":"main","thread_id":"t2"},{"session_label":"main","thread_id":"t3"}]"#
    );
}

#[tokio::test]
async fn a_failed_turn_is_written_and_the_pointer_stays() {
    let fixture = Fixture::new();
    let failed = |id: &str, parent| {
        let mut failed = short_turn(id, "main", parent);
        failed.status = TurnStatus::Failed;
        failed.stop_reason = StopReason::Error;
        failed.move_pointer = false;
        failed.error = Some(AgentError {
            kind: AgentErrorKind::RateLimit,
            message: "too many".to_owned(),
            retryable: true,
            detail: ErrorDetail {
                kind: FailureKind::RateLimit,
                status: Some(429),
                code: None,
                retry_after_ms: None,
                retry_after_source: None,
            },
        });
        failed
    };
    let receipt = fixture.commit(failed("t0", None)).await.unwrap();
    assert_eq!(receipt.head, None);
    let session = fixture.ledger.session("main").await.unwrap().unwrap();
    assert_eq!(session.thread_id, None);
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let receipt = fixture.commit(failed("t2", Some("t1"))).await.unwrap();
    assert_eq!(receipt.head.as_deref(), Some("t1"));
    // The pointer does not move, so the head cannot be stale.
    fixture.commit(turn("t3", "main", Some("t1"))).await.unwrap();
    let receipt = fixture.commit(failed("t4", Some("t1"))).await.unwrap();
    assert_eq!(receipt.head.as_deref(), Some("t3"));
    assert_eq!(
        fixture.rows("SELECT thread_id FROM session_history ORDER BY id").await,
        r#"[{"thread_id":"t1"},{"thread_id":"t3"}]"#
    );
    let row = fixture.ledger.turn("t4").await.unwrap().unwrap();
    assert_eq!(
        serde_json::to_string(&row.error).unwrap(),
        r#"{"kind":"rate_limit","message":"too many","retryable":true,"code":null}"#
    );
    assert_eq!((row.status.as_str(), row.stop_reason.as_deref()), ("failed", Some("error")));
}

#[tokio::test]
async fn a_compaction_is_a_turn_between_the_old_head_and_the_run() {
    let fixture = Fixture::new();
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    fixture.commit(short_turn("t2", "main", Some("t1"))).await.unwrap();
    let mut compacted = short_turn("t3", "main", Some("t2"));
    compacted.compaction = Some(compaction("t1", "t2"));
    fixture.commit(compacted).await.unwrap();
    let run = fixture.ledger.turn("t3").await.unwrap().unwrap();
    assert_eq!((run.depth, run.thread_tokens), (3, 3 * 127 + 750));
    let summary = fixture.ledger.turn(&run.parent_turn_id.unwrap()).await.unwrap().unwrap();
    assert_eq!(summary.parent_turn_id.as_deref(), Some("t2"));
    assert_eq!(summary.turn_type, "compaction");
    assert_eq!(summary.compaction, Some(compaction("t1", "t2")));
    assert_eq!(summary.messages[0].content, "[Previous conversation summary]:\n\nwhat was said");
    assert_eq!(
        fixture.rows("SELECT count(*) AS moves FROM session_history").await,
        r#"[{"moves":4}]"#
    );
}

#[tokio::test]
async fn a_compaction_of_nothing_is_refused() {
    let fixture = Fixture::new();
    let mut root = short_turn("t1", "main", None);
    root.compaction = Some(compaction("t0", "t1"));
    let error = fixture.commit(root).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Constraint);
    assert_eq!(fixture.rows("SELECT count(*) AS n FROM turns").await, r#"[{"n":0}]"#);
}

#[tokio::test]
async fn the_schema_refuses_cycles_and_unknown_states() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    fixture.commit(turn("t2", "main", Some("t1"))).await.unwrap();
    let core = fixture.ledger.core().unwrap();
    for sql in [
        "UPDATE turn_rows SET parent = 2 WHERE id = 't1'",
        "UPDATE turn_rows SET parent = 2, depth = 2 WHERE id = 't1'",
        "UPDATE turn_rows SET first_child = NULL WHERE id = 't1'",
        "UPDATE turn_rows SET parent = 2, depth = 2 WHERE id = 't2'",
        "UPDATE turn_rows SET depth = 5 WHERE id = 't2'",
        "UPDATE turn_rows SET n = 9 WHERE id = 't2'",
        "UPDATE turn_rows SET status = 5 WHERE id = 't2'",
        "UPDATE turn_rows SET stop_reason = 'stop' WHERE id = 't2'",
        "UPDATE turn_rows SET turn_type = 2 WHERE id = 't2'",
        "UPDATE call_rows SET status = 4",
        "UPDATE sessions SET status = 'gone'",
        "UPDATE sessions SET thread_id = 'missing'",
        "UPDATE message_rows SET role = 4",
        "UPDATE message_rows SET key = key + 1 WHERE key & 1048575 = 0",
        "INSERT INTO sessions (label, created_at, updated_at) VALUES ('', 1, 1)",
        "DELETE FROM turn_rows WHERE id = 't1'",
    ] {
        let result = core
            .writer
            .submit(move |connection| {
                connection
                    .execute(sql, ())
                    .map_err(|error| crate::sqlite::error::sqlite("try", &error))
            })
            .await;
        assert_eq!(result.unwrap_err().kind, StorageErrorKind::Constraint, "{sql}");
    }
}

#[tokio::test]
async fn a_turn_with_two_messages_of_one_id_or_a_call_of_no_message_is_refused() {
    let fixture = Fixture::new();
    let mut twice = turn("t1", "main", None);
    twice.messages[3].id = "t1-m1".to_owned();
    let mut lost = turn("t1", "main", None);
    lost.tool_calls[0].message_id = "other".to_owned();
    let mut far = turn("t1", "main", None);
    far.messages[3].sequence = 1 << 20;
    for refused in [twice, lost, far] {
        let error = fixture.commit(refused).await.unwrap_err();
        assert_eq!(error.kind, StorageErrorKind::Constraint);
    }
    assert_eq!(
        fixture.counts().await,
        r#"[{"turns":0,"messages":0,"calls":0,"sessions":0,"moves":0}]"#
    );
    fixture.commit(turn("t1", "main", None)).await.unwrap();
}
