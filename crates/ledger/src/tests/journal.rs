//! A turn under way, through the port: what each commit point leaves, and that no reader sees it before the last.

use std::sync::Arc;

use super::*;
use model::{
    CallStep, Journal, OnStaleHead, OpenTurn, Opened, ReplayClass, StorageErrorKind, TurnOpening,
    TurnStep,
};

/// W0 of `turn`: its first message, and nothing of its end.
pub(super) fn opening(turn: &TurnCommit) -> Box<TurnOpening> {
    let mut begun = turn.clone();
    begun.status = TurnStatus::Streaming;
    begun.messages.truncate(1);
    begun.tool_calls.clear();
    begun.tool_call_count = 0;
    begun.usage = TokenUsage::default();
    let context = r#"{"systemPrompt":"s","maxIterations":25}"#.to_owned();
    Box::new(TurnOpening { turn: begun, context, target: Some(r#"{"to":1}"#.to_owned()) })
}

pub(super) async fn begin(ledger: &Arc<Ledger>, turn: &TurnCommit) -> i64 {
    match ledger.begin(opening(turn)).await.unwrap() {
        Opened::Leased(epoch) => epoch,
        other => panic!("{other:?}"),
    }
}

/// A step of `turn`: so many of its messages, and its call with this status.
pub(super) fn step(
    turn: &TurnCommit,
    epoch: i64,
    messages: std::ops::Range<usize>,
    status: ToolCallStatus,
) -> Box<TurnStep> {
    let mut row = turn.tool_calls[0].clone();
    row.status = status;
    let ended = matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
    if !ended {
        (row.result, row.completed_at) = (None, None);
    }
    Box::new(TurnStep {
        turn_id: turn.turn_id.clone(),
        session_label: turn.session_label.clone(),
        epoch,
        messages: turn.messages[messages].to_vec(),
        calls: vec![CallStep {
            row,
            replay: Some(ReplayClass::Idempotent),
            arguments_hash: (status != ToolCallStatus::Pending).then(|| "hash".to_owned()),
        }],
        progress: Some(r#"{"iterations":1}"#.to_owned()),
    })
}

/// W4 of `turn`, with what is left to write.
pub(super) fn ending(turn: &TurnCommit, epoch: i64, written: usize) -> Box<TurnCommit> {
    let mut ended = turn.clone();
    ended.messages.drain(..written);
    ended.tool_calls.clear();
    ended.epoch = Some(epoch);
    ended.on_stale_head = OnStaleHead::Beside;
    Box::new(ended)
}

#[tokio::test]
async fn a_turn_written_step_by_step_is_the_turn_written_at_once() {
    let at_once = Fixture::new();
    at_once.commit(turn("t1", "main", None)).await.unwrap();
    at_once.commit(turn("t2", "main", Some("t1"))).await.unwrap();
    let by_steps = Fixture::new();
    let ledger = &by_steps.ledger;
    for (id, parent) in [("t1", None), ("t2", Some("t1"))] {
        let turn = turn(id, "main", parent);
        let epoch = begin(ledger, &turn).await;
        ledger.record(step(&turn, epoch, 1..2, ToolCallStatus::Pending)).await.unwrap();
        ledger.record(step(&turn, epoch, 0..0, ToolCallStatus::Running)).await.unwrap();
        // A step that is said again changes nothing.
        ledger.record(step(&turn, epoch, 0..2, ToolCallStatus::Running)).await.unwrap();
        ledger.record(step(&turn, epoch, 2..3, ToolCallStatus::Completed)).await.unwrap();
        let receipt = ledger.commit(ending(&turn, epoch, 3)).await.unwrap();
        let head = Some(id.to_owned());
        assert_eq!(receipt, CommitReceipt { turn_id: id.to_owned(), head, stale_head: None });
    }
    for sql in [
        "SELECT * FROM turns ORDER BY id",
        "SELECT * FROM messages ORDER BY turn_id, sequence",
        "SELECT * FROM threads ORDER BY turn_id",
        "SELECT label, thread_id, persona_id, updated_at, status, opening FROM sessions",
        "SELECT * FROM session_history",
        "SELECT id, status, params_json, result_json, error, started_at, completed_at FROM tool_calls ORDER BY id",
        "SELECT * FROM open_turns",
    ] {
        assert_eq!(by_steps.rows(sql).await, at_once.rows(sql).await, "{sql}");
    }
    assert_eq!(
        by_steps.rows("SELECT replay, arguments_hash FROM tool_calls WHERE id = 't1-c0'").await,
        r#"[{"replay":"idempotent","arguments_hash":"hash"}]"#
    );
    assert_eq!(
        by_steps.rows("SELECT session_label, epoch, owner FROM session_leases").await,
        r#"[{"session_label":"main","epoch":2,"owner":null}]"#
    );
}

#[tokio::test]
async fn no_reader_sees_a_turn_before_its_end() {
    let fixture = Fixture::new();
    let ledger = &fixture.ledger;
    let first = turn("t1", "main", None);
    let epoch = begin(ledger, &first).await;
    ledger.record(step(&first, epoch, 1..2, ToolCallStatus::Running)).await.unwrap();
    let unknown = |error: StorageError| error.kind;
    assert_eq!(ledger.session("main").await.unwrap(), None);
    assert_eq!(
        ledger.messages("main").await.map_err(unknown),
        Err(StorageErrorKind::UnknownSession)
    );
    assert_eq!(ledger.messages("t1").await.map_err(unknown), Err(StorageErrorKind::UnknownSession));
    assert_eq!(
        ledger.fork("t1", Some("side")).await.map_err(unknown),
        Err(StorageErrorKind::UnknownTurn)
    );
    assert_eq!(fixture.rows("SELECT * FROM threads").await, "[]");
    assert!(!ledger.history("main", None, None).await.unwrap().exists);
    assert_eq!(
        ledger.history("main", Some("t1"), None).await.map_err(unknown),
        Err(StorageErrorKind::UnknownTurn)
    );
    let row = ledger.turn("t1").await.unwrap().unwrap();
    assert_eq!((row.status.as_str(), row.messages.len(), row.stop_reason), ("streaming", 2, None));
    ledger.commit(ending(&first, epoch, 2)).await.unwrap();
    assert_eq!(ledger.messages("main").await.unwrap().len(), 4);
    assert_eq!(ledger.session("main").await.unwrap().unwrap().thread_id.as_deref(), Some("t1"));

    let second = turn("t2", "main", Some("t1"));
    begin(ledger, &second).await;
    assert_eq!(ledger.messages("main").await.unwrap().len(), 4);
    assert_eq!(ledger.session("main").await.unwrap().unwrap().thread_id.as_deref(), Some("t1"));
    assert_eq!(fixture.rows("SELECT turn_id FROM threads").await, r#"[{"turn_id":"t1"}]"#);
}

#[tokio::test]
async fn a_failed_first_turn_shows_its_session_without_a_turn() {
    let fixture = Fixture::new();
    let mut failed = short_turn("t1", "main", None);
    (failed.move_pointer, failed.status) = (false, TurnStatus::Failed);
    let epoch = begin(&fixture.ledger, &failed).await;
    fixture.ledger.commit(ending(&failed, epoch, 1)).await.unwrap();
    assert_eq!(fixture.ledger.session("main").await.unwrap().unwrap().thread_id, None);
}

#[tokio::test]
async fn a_turn_begins_only_on_the_head_it_has_read() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    for stale in [turn("t2", "main", None), turn("t2", "main", Some("t0"))] {
        assert_eq!(fixture.ledger.begin(opening(&stale)).await.unwrap(), Opened::Moved);
    }
    let mut orphan = turn("t2", "new", Some("nowhere"));
    orphan.expected_head = None;
    let error = fixture.ledger.begin(opening(&orphan)).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::UnknownTurn);
    assert_eq!(
        fixture.rows("SELECT (SELECT count(*) FROM sessions) AS s, (SELECT count(*) FROM turns) AS t, (SELECT count(*) FROM session_leases) AS l").await,
        r#"[{"s":1,"t":1,"l":0}]"#
    );
}

#[tokio::test]
async fn a_head_that_a_host_moved_meanwhile_leaves_the_turn_beside() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &second).await;
    fixture.commit(turn("t3", "main", Some("t1"))).await.unwrap();
    let receipt = fixture.ledger.commit(ending(&second, epoch, 1)).await.unwrap();
    assert_eq!(receipt.head.as_deref(), Some("t3"));
    assert_eq!(receipt.stale_head.map(|error| error.kind), Some(StorageErrorKind::StaleHead));
    let row = fixture.ledger.turn("t2").await.unwrap().unwrap();
    assert_eq!((row.status.as_str(), row.parent_turn_id.as_deref()), ("completed", Some("t1")));
}

#[tokio::test]
async fn contexts_are_shared_and_old_ones_go() {
    let fixture = Fixture::new();
    let begin_with = |id: String, context: String| {
        let mut opening = opening(&short_turn(&id, &id, None));
        opening.context = context;
        fixture.ledger.begin(opening)
    };
    for (id, context) in [("a", 1), ("b", 1), ("c", 2)] {
        begin_with(id.to_owned(), format!(r#"{{"n":{context}}}"#)).await.unwrap();
    }
    assert_eq!(
        fixture.rows("SELECT count(*) AS n FROM run_contexts").await,
        r#"[{"n":2}]"#,
        "what says the same is kept once"
    );
    for n in 0..100 {
        let turn = short_turn(&format!("t{n:03}"), &format!("s{n}"), None);
        let mut opening = opening(&turn);
        opening.context = format!(r#"{{"clock":{n}}}"#);
        let Opened::Leased(epoch) = fixture.ledger.begin(opening).await.unwrap() else { panic!() };
        fixture.ledger.commit(ending(&turn, epoch, 1)).await.unwrap();
    }
    assert_eq!(
        fixture.rows("SELECT count(*) < 40 AS few, min(id) AS oldest FROM run_contexts").await,
        r#"[{"few":1,"oldest":1}]"#,
        "those of open turns stay, and of the others the newest"
    );
}

#[tokio::test]
async fn what_is_open_and_runs_nowhere_is_interrupted_and_can_be_taken_over() {
    let fixture = Fixture::new();
    let ledger = &fixture.ledger;
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(ledger, &second).await;
    ledger.record(step(&second, epoch, 1..2, ToolCallStatus::Running)).await.unwrap();
    assert!(ledger.interrupted(None).await.unwrap().is_empty(), "it runs");
    assert_eq!(ledger.begin(opening(&turn("t3", "main", Some("t1")))).await.unwrap(), Opened::Busy);
    assert!(matches!(ledger.reopen("t2").await.unwrap(), Opened::Busy));
    ledger.release("main", epoch);
    let listed = ledger.interrupted(None).await.unwrap();
    let facts = |turn: &OpenTurn| {
        let call = &turn.calls[0];
        (
            (turn.turn_id.clone(), turn.expected_head.clone(), turn.moved, turn.messages.len()),
            (turn.progress.iterations, turn.target.clone(), turn.context.clone()),
            (call.row.status, call.replay, call.begun),
        )
    };
    assert_eq!(
        listed.iter().map(facts).collect::<Vec<_>>(),
        [(
            ("t2".to_owned(), Some("t1".to_owned()), false, 2),
            (
                1,
                Some(r#"{"to":1}"#.to_owned()),
                r#"{"systemPrompt":"s","maxIterations":25}"#.to_owned()
            ),
            (ToolCallStatus::Running, ReplayClass::Idempotent, true),
        )]
    );
    let Opened::Leased(taken) = ledger.reopen("t2").await.unwrap() else { panic!() };
    assert_eq!(taken.epoch, epoch + 1);
    assert!(ledger.interrupted(None).await.unwrap().is_empty());
    let error = ledger.commit(ending(&second, epoch, 2)).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::StaleWriter);
    ledger.commit(ending(&second, taken.epoch, 2)).await.unwrap();
    let error = ledger.reopen("t2").await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::UnknownTurn, "it has ended");
}

#[tokio::test]
async fn an_interrupted_turn_whose_session_went_on_says_so() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &second).await;
    fixture.ledger.release("main", epoch);
    let third = turn("t3", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &third).await;
    fixture.ledger.commit(ending(&third, epoch, 1)).await.unwrap();
    let listed = fixture.ledger.interrupted(Some("t2")).await.unwrap();
    assert_eq!(listed.iter().map(|turn| turn.moved).collect::<Vec<_>>(), [true]);
}
