//! Commands to runs of this process and of others: each must be delivered once to the run under way, and be answered.

use std::task::{Context, Waker};

use crate::live_run::PlayedRun;
use crate::store::{Fixture, ProcessEnd};
use crate::turns::{begin, ending, short_turn};
use model::{LedgerPorts, SessionCommand, StorageErrorKind};

async fn steer(from: &LedgerPorts, text: &str) -> bool {
    from.admin.command("main", SessionCommand::Steer(text.to_owned())).await.unwrap()
}

async fn refused(from: &LedgerPorts) -> StorageErrorKind {
    from.admin.command("main", SessionCommand::Abort).await.unwrap_err().kind
}

pub async fn a_command_of_any_process_reaches_the_run_once_and_is_answered(mut fixture: Fixture) {
    let turn = short_turn("t1", "main", None);
    let run = PlayedRun::new(&fixture.ledger, &turn);
    begin(&fixture.ledger, &turn).await;
    let elsewhere = fixture.store.other_process().await;
    assert!(steer(&fixture.ledger, "from here").await);
    assert!(steer(&elsewhere, "from there").await);
    assert!(steer(&elsewhere, "again").await);
    assert!(elsewhere.admin.command("main", SessionCommand::Abort).await.unwrap());
    assert!(steer(&fixture.ledger, "last").await);
    let expected = ["steer from here", "steer from there", "steer again", "abort", "steer last"];
    assert_eq!(run.commands(), expected);
}

pub async fn a_run_that_takes_no_message_refuses_it_from_any_process(mut fixture: Fixture) {
    let turn = short_turn("t1", "main", None);
    let run = PlayedRun::refusing_messages(&fixture.ledger, &turn);
    begin(&fixture.ledger, &turn).await;
    let elsewhere = fixture.store.other_process().await;
    assert!(!steer(&fixture.ledger, "a").await);
    assert!(!steer(&elsewhere, "b").await);
    assert_eq!(run.commands(), ["steer a", "steer b"]);
}

pub async fn a_command_reaches_no_run_that_has_ended_and_none_of_another_session(
    mut fixture: Fixture,
) {
    let elsewhere = fixture.store.other_process().await;
    assert_eq!(refused(&elsewhere).await, StorageErrorKind::NotRunning, "no session");
    let (first, other) = (short_turn("t1", "main", None), short_turn("o1", "other", None));
    let ended = PlayedRun::new(&fixture.ledger, &first);
    let beside = PlayedRun::new(&fixture.ledger, &other);
    let epoch = begin(&fixture.ledger, &first).await;
    begin(&fixture.ledger, &other).await;
    fixture.ledger.journal.commit(ending(&first, epoch, 1)).await.unwrap();
    for ledger in [&fixture.ledger, &elsewhere] {
        assert_eq!(refused(ledger).await, StorageErrorKind::NotRunning, "the run has ended");
    }
    let second = short_turn("t2", "main", Some("t1"));
    let run = PlayedRun::new(&fixture.ledger, &second);
    begin(&fixture.ledger, &second).await;
    assert!(steer(&elsewhere, "to the second").await);
    assert_eq!(
        [ended.commands(), beside.commands(), run.commands()],
        [vec![], vec![], vec!["steer to the second".to_owned()]]
    );
}

pub async fn a_command_to_a_run_whose_process_has_ended_is_refused(mut fixture: Fixture) {
    let turn = short_turn("t1", "main", None);
    let run = PlayedRun::new(&fixture.ledger, &turn);
    begin(&fixture.ledger, &turn).await;
    fixture.next_process(ProcessEnd::Killed).await;
    let elsewhere = fixture.store.other_process().await;
    for ledger in [&fixture.ledger, &elsewhere] {
        assert_eq!(refused(ledger).await, StorageErrorKind::NotRunning);
    }
    assert_eq!(run.commands(), Vec::<String>::new());
}

pub async fn a_command_to_a_run_never_reaches_the_next_run_of_its_process(mut fixture: Fixture) {
    let elsewhere = fixture.store.other_process().await;
    let first = short_turn("t1", "main", None);
    // It is not registered, so that the command waits for it.
    let epoch = begin(&fixture.ledger, &first).await;
    let mut command = elsewhere.admin.command("main", SessionCommand::Abort);
    assert!(command.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // The command was submitted before this write, and is in the store.
    elsewhere.admin.uncompact("nobody").await.unwrap_err();
    fixture.ledger.journal.commit(ending(&first, epoch, 1)).await.unwrap();
    let second = short_turn("t2", "main", Some("t1"));
    let run = PlayedRun::new(&fixture.ledger, &second);
    begin(&fixture.ledger, &second).await;
    assert_eq!(command.await.unwrap_err().kind, StorageErrorKind::NotRunning);
    assert!(steer(&elsewhere, "to the second").await);
    assert_eq!(run.commands(), ["steer to the second"]);
}
