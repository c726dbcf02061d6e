//! A turn under way, through the port: the rows after each commit point; no reader must see the turn before the last one.

use std::sync::Arc;

use super::*;
use model::{Opened, StorageErrorKind, TurnLease};

pub(super) async fn begin(ledger: &Arc<Ledger>, turn: &TurnEnd) -> i64 {
    match ledger.begin(opening(turn)).await.unwrap() {
        Opened::Leased(epoch) => epoch,
        other => panic!("{other:?}"),
    }
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
        // A repeated step changes nothing.
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
        "SELECT turn_id FROM runs WHERE ended_at IS NULL",
    ] {
        assert_eq!(by_steps.rows(sql).await, at_once.rows(sql).await, "{sql}");
    }
    assert_eq!(
        by_steps.rows("SELECT replay, arguments_hash FROM tool_calls WHERE id = 't1-c0'").await,
        r#"[{"replay":"idempotent","arguments_hash":"hash"}]"#
    );
    // The second turn was written under the lease that the first one has left.
    assert_eq!(
        by_steps
            .rows("SELECT session_label, epoch, owner IS NULL AS released FROM session_leases")
            .await,
        r#"[{"session_label":"main","epoch":1,"released":0}]"#
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
    let session = ledger.session("main").await.unwrap().unwrap();
    assert_eq!(session.thread_id, None);
    assert_eq!(LedgerRead::history(&**ledger, "main").await.unwrap(), []);
    assert_eq!(
        LedgerRead::history(&**ledger, "t1").await.map_err(unknown),
        Err(StorageErrorKind::UnknownSession)
    );
    assert_eq!(
        ledger.fork("t1", Some("side")).await.map_err(unknown),
        Err(StorageErrorKind::UnknownTurn)
    );
    assert_eq!(fixture.rows("SELECT * FROM threads").await, "[]");
    let read = Journal::history(&**ledger, "main", None, None).await.unwrap();
    assert_eq!((read.exists, read.head, read.turns.len()), (true, None, 0));
    assert_eq!(
        Journal::history(&**ledger, "main", Some("t1"), None).await.map_err(unknown),
        Err(StorageErrorKind::UnknownTurn)
    );
    let row = ledger.turn("t1").await.unwrap().unwrap();
    assert_eq!((row.status.as_str(), row.messages.len(), row.stop_reason), ("streaming", 2, None));
    ledger.commit(ending(&first, epoch, 2)).await.unwrap();
    assert_eq!(LedgerRead::history(&**ledger, "main").await.unwrap().len(), 4);
    assert_eq!(ledger.session("main").await.unwrap().unwrap().thread_id.as_deref(), Some("t1"));

    let second = turn("t2", "main", Some("t1"));
    begin(ledger, &second).await;
    assert_eq!(LedgerRead::history(&**ledger, "main").await.unwrap().len(), 4);
    assert_eq!(ledger.session("main").await.unwrap().unwrap().thread_id.as_deref(), Some("t1"));
    assert_eq!(fixture.rows("SELECT turn_id FROM threads").await, r#"[{"turn_id":"t1"}]"#);
}

#[tokio::test]
async fn a_turn_begins_only_on_the_head_it_has_read() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    for stale in [turn("t2", "main", None), turn("t2", "main", Some("t0"))] {
        assert_eq!(fixture.ledger.begin(opening(&stale)).await.unwrap(), Opened::Moved);
    }
    let mut orphan = turn("t2", "new", Some("nowhere"));
    orphan.header.expected_head = None;
    let error = fixture.ledger.begin(opening(&orphan)).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::UnknownTurn);
    assert_eq!(
        fixture.rows("SELECT (SELECT count(*) FROM sessions) AS s, (SELECT count(*) FROM turns) AS t, (SELECT count(*) FROM session_leases) AS l").await,
        r#"[{"s":1,"t":1,"l":0}]"#
    );
}

#[tokio::test]
async fn contexts_are_shared_and_old_ones_are_deleted() {
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
        "the same context is stored once"
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
async fn a_turn_with_a_damaged_entry_is_closed_with_its_remaining_parts() {
    for lost in 0..3 {
        let fixture = Fixture::new();
        let ledger = &fixture.ledger;
        fixture.commit(turn("t1", "main", None)).await.unwrap();
        let turn = turn("t2", "main", Some("t1"));
        let epoch = begin(ledger, &turn).await;
        ledger.record(step(&turn, epoch, 1..2, ToolCallStatus::Running)).await.unwrap();
        ledger.record(step(&turn, epoch, 2..3, ToolCallStatus::Completed)).await.unwrap();
        let lease = TurnLease { turn_id: "t2".to_owned(), epoch };
        ledger.release("main", &lease);
        let damage = move |connection: &rusqlite::Connection| {
            let damage = "UPDATE journal SET entry = zeroblob(length(entry))
                          WHERE id = (SELECT id FROM journal WHERE kind = 1 ORDER BY id LIMIT 1 OFFSET ?1)";
            Ok(connection.execute(damage, (lost,)).unwrap())
        };
        assert_eq!(ledger.core().unwrap().writer.submit(damage).await.unwrap(), 1);
        let Opened::Leased(open) = ledger.reopen("t2").await.unwrap() else { panic!() };
        assert_eq!((open.altered, open.messages.len()), (true, 2), "without entry {lost}");
        let mut end = ending(&turn, open.epoch, 3);
        end.header.parent_turn_id.clone_from(&open.parent_turn_id);
        end.header.expected_head.clone_from(&open.expected_head);
        // The number of an answer for a process that has read two messages.
        end.messages[0].sequence = 2;
        ledger.commit(end).await.unwrap();
        assert_eq!(
            fixture
                .rows("SELECT sequence AS n FROM messages WHERE turn_id = 't2' ORDER BY 1")
                .await,
            r#"[{"n":0},{"n":1},{"n":2}]"#,
            "without entry {lost}"
        );
        assert_eq!(
            fixture.rows("SELECT count(*) AS n FROM tool_calls WHERE turn_id = 't2'").await,
            r#"[{"n":1}]"#
        );
    }
}
