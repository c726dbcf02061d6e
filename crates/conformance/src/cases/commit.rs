//! W4: the rows that a commit writes, and its refusals; forks. A refused commit must never leave a row.

use crate::store::Fixture;
use crate::turns::{compaction, short_turn, turn};
use model::{OnStaleHead, StopReason, StorageErrorKind, ToolCallRecord, TurnStatus};

pub async fn a_stale_head_writes_nothing(fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    fixture.commit(turn("t2", "main", Some("t1"))).await.unwrap();
    let before = fixture.counts().await;
    for stale in [turn("t3", "main", Some("t1")), turn("t3", "main", None)] {
        let error = fixture.commit(stale).await.unwrap_err();
        assert_eq!(error.kind, StorageErrorKind::StaleHead);
    }
    assert_eq!(fixture.counts().await, before);
    assert_eq!(
        fixture.ledger.read.session("main").await.unwrap().unwrap().thread_id.as_deref(),
        Some("t2")
    );
}

pub async fn a_second_commit_of_a_turn_doubles_nothing(fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let before = fixture.counts().await;
    let error = fixture.commit(turn("t1", "main", Some("t1"))).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Constraint);
    let error = fixture.commit(turn("t1", "other", None)).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Constraint);
    assert_eq!(fixture.counts().await, before);
}

pub async fn a_commit_that_fails_at_its_last_row_leaves_nothing(fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let before = fixture.counts().await;
    let mut broken = turn("t2", "new session", Some("t1"));
    broken.header.expected_head = None;
    broken.tool_calls[0].message_id = "no such message".to_owned();
    let error = fixture.commit(broken).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Constraint);
    assert_eq!(fixture.counts().await, before);
}

pub async fn an_unknown_parent_is_refused_by_name(fixture: Fixture) {
    let mut orphan = turn("t1", "main", Some("missing"));
    orphan.header.expected_head = None;
    let error = fixture.commit(orphan).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::UnknownTurn);
    assert!(error.message.contains("`missing`"), "{}", error.message);
    assert_eq!(fixture.counts().await, [0, 0, 0, 0, 0]);
}

pub async fn another_head_is_refused_before_an_unknown_parent(fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let mut orphan = turn("t2", "main", Some("missing"));
    orphan.on_stale_head = OnStaleHead::Refuse;
    let error = fixture.commit(orphan).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::StaleHead);
}

pub async fn two_calls_of_one_provider_id_have_ids_of_their_own(fixture: Fixture) {
    let mut twice = turn("t1", "main", None);
    twice.tool_calls[0].call_id.clear();
    let again = ToolCallRecord { sequence: 1, ..twice.tool_calls[0].clone() };
    twice.tool_calls.push(again);
    twice.tool_call_count = 2;
    fixture.commit(twice).await.unwrap();
    let stored = fixture.ledger.read.turn("t1").await.unwrap().unwrap();
    let calls = stored.tool_calls.iter().map(|it| (it.id.as_str(), it.sequence));
    assert_eq!(calls.collect::<Vec<_>>(), [("call_0", 0), ("call_0", 1)]);
    assert_ne!(stored.tool_calls[0].call_id, stored.tool_calls[1].call_id);
    assert!(fixture.ledger.admin.verify().await.unwrap().ok);
}

pub async fn a_compaction_becomes_the_head_even_when_its_run_failed(fixture: Fixture) {
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    let mut failed = short_turn("t2", "main", Some("t1"));
    failed.move_pointer = false;
    failed.status = TurnStatus::Failed;
    failed.stop_reason = StopReason::Error;
    // No turn before the compaction is retained: the first retained turn is the run's own.
    failed.compaction = Some(compaction("t1", "t2"));
    let receipt = fixture.commit(failed).await.unwrap();
    let run = fixture.ledger.read.turn("t2").await.unwrap().unwrap();
    assert_eq!(receipt.head, run.parent_turn_id);
    // A run that began before the compaction continues after it (docs/rules/sessions-and-ledger.md#pointer-write).
    let receipt = fixture.commit(short_turn("t3", "main", Some("t1"))).await.unwrap();
    assert_eq!(receipt.head.as_deref(), Some("t3"));
    assert_eq!(
        fixture.ledger.read.turn("t3").await.unwrap().unwrap().parent_turn_id,
        run.parent_turn_id
    );
}

pub async fn a_fork_is_one_session_and_inherits_its_persona(fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    fixture.commit(turn("t2", "main", Some("t1"))).await.unwrap();
    let before = fixture.counts().await;
    assert_eq!(before, [2, 8, 2, 1, 2]);
    let fork = fixture.ledger.admin.fork("t1", Some("side")).await.unwrap();
    assert_eq!(
        (fork.label.as_str(), fork.thread_id.as_deref(), fork.persona_id.as_str()),
        ("side", Some("t1"), "default")
    );
    assert_eq!(fixture.counts().await, [2, 8, 2, 2, 3]);
    let unnamed = fixture.ledger.admin.fork("t2", None).await.unwrap();
    assert!(unnamed.label.starts_with("fork-") && unnamed.label.len() == 31, "{}", unnamed.label);
    for (of, label, kind) in [
        ("t9", Some("x"), StorageErrorKind::UnknownTurn),
        ("t1", Some("side"), StorageErrorKind::Constraint),
        ("t1", Some("bad\nlabel"), StorageErrorKind::Constraint),
        ("t1", Some(""), StorageErrorKind::Constraint),
    ] {
        assert_eq!(fixture.ledger.admin.fork(of, label).await.unwrap_err().kind, kind);
    }
    fixture.commit(turn("t3", "side", Some("t1"))).await.unwrap();
    assert_eq!(
        fixture.ledger.read.session("main").await.unwrap().unwrap().thread_id.as_deref(),
        Some("t2")
    );
}

pub async fn a_broker_commits_after_the_head_it_names_or_the_current_one(fixture: Fixture) {
    let mut first = turn("t1", "main", None);
    first.header.expected_head = Some("not compared".to_owned());
    fixture.ledger.admin.write_turn(first).await.unwrap();
    fixture.ledger.admin.write_turn(turn("t2", "main", None)).await.unwrap();
    assert_eq!(
        fixture.ledger.read.turn("t2").await.unwrap().unwrap().parent_turn_id.as_deref(),
        Some("t1")
    );
    let error = fixture.ledger.admin.write_turn(turn("t3", "main", Some("t1"))).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::StaleHead);
    // A new session may begin at any turn.
    fixture.ledger.admin.write_turn(turn("t3", "worker", Some("t1"))).await.unwrap();
}
