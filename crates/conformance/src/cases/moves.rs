//! A host's moves of a session's pointer, within the session's own tree. A move must never change a turn.

use crate::cases::approvals::parking;
use crate::store::Fixture;
use crate::turns::{begin, ending, turn};
use model::StorageErrorKind::{
    self, AwaitingApproval, Locked, StaleHead, UnknownSession, UnknownTurn,
};
use model::{DiffOptions, LedgerPorts, PageOptions};

async fn moved(
    ledger: &LedgerPorts,
    label: &str,
    (to, expected): (&str, Option<&str>),
) -> Result<Option<String>, StorageErrorKind> {
    let row = ledger.admin.move_session(label, to, expected).await;
    row.map(|row| row.thread_id).map_err(|error| error.kind)
}

fn at(turn: &str) -> Result<Option<String>, StorageErrorKind> {
    Ok(Some(turn.to_owned()))
}

async fn history(ledger: &LedgerPorts, label: &str) -> Vec<String> {
    let messages = ledger.read.history(label).await.unwrap();
    let ids = messages.into_iter().filter(|it| it.message.id.ends_with("-m0"));
    ids.map(|it| it.message.id.trim_end_matches("-m0").to_owned()).collect()
}

/// Turns `t1`, `t2` and `t3` of `main`, one after the other.
async fn thread(fixture: &Fixture) {
    for (id, parent) in [("t1", None), ("t2", Some("t1")), ("t3", Some("t2"))] {
        fixture.commit(turn(id, "main", parent)).await.unwrap();
    }
}

pub async fn a_moved_session_continues_from_the_turn_and_loses_none(fixture: Fixture) {
    thread(&fixture).await;
    let ledger = &fixture.ledger;
    ledger.admin.set_alias("m".to_owned(), "main".to_owned()).await.unwrap();
    assert_eq!(moved(ledger, "m", ("t1", Some("t3"))).await, at("t1"));
    assert_eq!(history(ledger, "main").await, ["t1"]);
    fixture.commit(turn("t4", "main", Some("t1"))).await.unwrap();
    assert_eq!(history(ledger, "main").await, ["t1", "t4"]);
    let diff =
        ledger.read.diff("t3".to_owned(), "t4".to_owned(), DiffOptions::default()).await.unwrap();
    assert_eq!(diff.ancestor.map(|turn| turn.id).as_deref(), Some("t1"));
    assert_eq!(moved(ledger, "main", ("t3", None)).await, at("t3"));
    // It points there already.
    assert_eq!(moved(ledger, "main", ("t3", Some("t1"))).await, at("t3"));
    assert_eq!(history(ledger, "main").await, ["t1", "t2", "t3"]);
    let page = ledger.read.session_history("main".to_owned(), PageOptions::default()).await;
    // By their times, which these turns do not have from a clock.
    let mut log: Vec<String> = page.unwrap().items.into_iter().map(|it| it.thread_id).collect();
    log.sort();
    assert_eq!(log, ["t1", "t1", "t2", "t3", "t3", "t4"]);
    assert_eq!(fixture.counts().await[0], 4);
    assert_eq!(ledger.admin.verify().await.unwrap().problems, []);
}

pub async fn a_session_moves_within_its_own_tree_only(fixture: Fixture) {
    thread(&fixture).await;
    let ledger = &fixture.ledger;
    ledger.admin.fork("t2", Some("side")).await.unwrap();
    fixture.commit(turn("s1", "side", Some("t2"))).await.unwrap();
    fixture.commit(turn("o1", "other", None)).await.unwrap();
    for outside in ["t3", "o1", "nowhere"] {
        assert_eq!(moved(ledger, "side", (outside, None)).await, Err(UnknownTurn), "{outside}");
    }
    assert_eq!(moved(ledger, "main", ("s1", None)).await, Err(UnknownTurn));
    assert_eq!(moved(ledger, "nobody", ("t1", None)).await, Err(UnknownSession));
    for inside in ["t1", "s1", "t2", "s1"] {
        assert_eq!(moved(ledger, "side", (inside, None)).await, at(inside));
    }
    assert_eq!(history(ledger, "side").await, ["t1", "t2", "s1"]);
    assert_eq!(ledger.admin.verify().await.unwrap().problems, []);
}

pub async fn a_session_is_not_moved_from_another_head_nor_while_a_turn_runs_or_waits(
    mut fixture: Fixture,
) {
    thread(&fixture).await;
    let elsewhere = fixture.store.other_process().await;
    let ledger = fixture.ledger.clone();
    assert_eq!(moved(&ledger, "main", ("t1", Some("t2"))).await, Err(StaleHead));
    // Of two moves from the same head one is made.
    assert_eq!(moved(&ledger, "main", ("t1", Some("t3"))).await, at("t1"));
    assert_eq!(moved(&elsewhere, "main", ("t2", Some("t3"))).await, Err(StaleHead));
    moved(&ledger, "main", ("t3", None)).await.unwrap();
    let running = turn("t4", "main", Some("t3"));
    let epoch = begin(&ledger, &running).await;
    for process in [&ledger, &elsewhere] {
        assert_eq!(moved(process, "main", ("t1", None)).await, Err(Locked));
        assert_eq!(moved(process, "main", ("t4", None)).await, Err(UnknownTurn));
    }
    ledger.journal.commit(ending(&running, epoch, 1)).await.unwrap();
    assert_eq!(moved(&elsewhere, "main", ("t2", Some("t4"))).await, at("t2"));
    let waiting = turn("t5", "main", Some("t2"));
    let epoch = begin(&ledger, &waiting).await;
    ledger.journal.record(parking(&waiting, epoch, None)).await.unwrap();
    for process in [&ledger, &elsewhere] {
        assert_eq!(moved(process, "main", ("t1", None)).await, Err(AwaitingApproval));
    }
    assert_eq!(ledger.read.session("main").await.unwrap().unwrap().thread_id, at("t2").unwrap());
}
