//! A turn under way: its commit points, its lease, and its take-over. Readers must never see its session before its first
//! turn has ended.

use crate::store::Fixture;
use crate::turns::{
    begin, compacting, compaction, ending, opening, release, short_turn, step, turn,
};
use model::{OpenTurn, Opened, ReplayClass, StorageErrorKind, ToolCallStatus, TurnStatus};

pub async fn a_failed_first_turn_shows_its_session_without_a_turn(fixture: Fixture) {
    let mut failed = short_turn("t1", "main", None);
    (failed.move_pointer, failed.status) = (false, TurnStatus::Failed);
    let epoch = begin(&fixture.ledger, &failed).await;
    fixture.ledger.journal.commit(ending(&failed, epoch, 1)).await.unwrap();
    assert_eq!(fixture.ledger.read.session("main").await.unwrap().unwrap().thread_id, None);
}

pub async fn a_turn_becomes_a_branch_after_a_host_moved_the_head(fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &second).await;
    fixture.commit(turn("t3", "main", Some("t1"))).await.unwrap();
    let receipt = fixture.ledger.journal.commit(ending(&second, epoch, 1)).await.unwrap();
    assert_eq!(receipt.head.as_deref(), Some("t3"));
    assert_eq!(receipt.stale_head.map(|error| error.kind), Some(StorageErrorKind::StaleHead));
    let row = fixture.ledger.read.turn("t2").await.unwrap().unwrap();
    assert_eq!((row.status.as_str(), row.parent_turn_id.as_deref()), ("completed", Some("t1")));
}

pub async fn an_interrupted_turn_is_marked_if_its_session_has_moved(fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &second).await;
    release(&fixture.ledger, &second, epoch);
    let third = turn("t3", "main", Some("t1"));
    let epoch = begin(&fixture.ledger, &third).await;
    fixture.ledger.journal.commit(ending(&third, epoch, 1)).await.unwrap();
    let listed = fixture.ledger.journal.interrupted(Some("t2")).await.unwrap();
    assert_eq!(listed.iter().map(|turn| turn.moved).collect::<Vec<_>>(), [true]);
}

pub async fn an_open_turn_without_a_process_is_interrupted_and_can_be_taken_over(fixture: Fixture) {
    let ledger = &fixture.ledger;
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let second = turn("t2", "main", Some("t1"));
    let epoch = begin(ledger, &second).await;
    ledger.journal.record(step(&second, epoch, 1..2, ToolCallStatus::Running)).await.unwrap();
    assert!(ledger.journal.interrupted(None).await.unwrap().is_empty(), "it runs");
    assert_eq!(
        ledger.journal.begin(opening(&turn("t3", "main", Some("t1")))).await.unwrap(),
        Opened::Busy
    );
    assert!(matches!(ledger.journal.reopen("t2").await.unwrap(), Opened::Busy));
    release(ledger, &second, epoch);
    let listed = ledger.journal.interrupted(None).await.unwrap();
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
    let Opened::Leased(taken) = ledger.journal.reopen("t2").await.unwrap() else { panic!() };
    assert_eq!(taken.epoch, epoch + 1);
    assert!(ledger.journal.interrupted(None).await.unwrap().is_empty());
    let error = ledger.journal.commit(ending(&second, epoch, 2)).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::StaleWriter);
    ledger.journal.commit(ending(&second, taken.epoch, 2)).await.unwrap();
    let error = ledger.journal.reopen("t2").await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::UnknownTurn, "it has ended");
}

pub async fn a_turn_that_has_compacted_compacts_again_in_the_process_that_takes_it_over(
    fixture: Fixture,
) {
    let ledger = &fixture.ledger;
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let mut second = turn("t2", "main", Some("t1"));
    let epoch = begin(ledger, &second).await;
    let first = compacting("c1", &second, Some(epoch), compaction("t1", "t2"));
    ledger.journal.compact(first).await.unwrap();
    release(ledger, &second, epoch);
    let Opened::Leased(taken) = ledger.journal.reopen("t2").await.unwrap() else { panic!() };
    let position = (taken.parent_turn_id.as_deref(), taken.expected_head.as_deref(), taken.moved);
    assert_eq!(position, (Some("c1"), Some("c1"), false));
    second.header.parent_turn_id.clone_from(&taken.parent_turn_id);
    second.header.expected_head.clone_from(&taken.expected_head);
    let again = compacting("c2", &second, Some(taken.epoch), compaction("c1", "t2"));
    ledger.journal.compact(again).await.unwrap();
    second.header.parent_turn_id = Some("c2".to_owned());
    second.header.expected_head = Some("c2".to_owned());
    let receipt = ledger.journal.commit(ending(&second, taken.epoch, 1)).await.unwrap();
    assert_eq!((receipt.head.as_deref(), receipt.stale_head), (Some("t2"), None));
}
