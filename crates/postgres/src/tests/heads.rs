//! The head of a session that a run reads with its label: what another process does meanwhile is seen by the next read.

use ::conformance::live_run::PlayedRun;
use ::conformance::turns::turn;
use model::{LedgerPorts, TurnEnd};

use crate::tests::store::{Schema, fresh_schema};

async fn commit(ports: &LedgerPorts, turn: TurnEnd) {
    ports.journal.commit(Box::new(turn)).await.unwrap();
}

#[tokio::test]
async fn the_head_that_is_read_with_a_label_is_taken_once() {
    let schema = fresh_schema();
    let ports = LedgerPorts::of(&schema.ledger);
    commit(&ports, turn("t1", "main", None)).await;
    let _run = PlayedRun::new(&ports, &turn("t2", "main", Some("t1")));
    assert_eq!(ports.journal.session_of("t2", "main").await.unwrap(), "main");
    commit(&ports, turn("t3", "main", Some("t1"))).await;
    // W0 compares it, and the run reads again.
    assert_eq!(ports.journal.head("main").await.unwrap().as_deref(), Some("t1"));
    assert_eq!(ports.journal.head("main").await.unwrap().as_deref(), Some("t3"));
}

#[tokio::test]
async fn the_head_behind_an_alias_is_not_read_with_it() {
    let schema = fresh_schema();
    let ports = LedgerPorts::of(&schema.ledger);
    commit(&ports, turn("t1", "main", None)).await;
    let alias = "insert into @session_aliases (alias, session_label, created_at, updated_at) values ('other', 'main', 1, 1)";
    Schema::batch(&schema.ledger, alias.to_owned()).await;
    let _run = PlayedRun::new(&ports, &turn("t2", "other", Some("t1")));
    assert_eq!(ports.journal.session_of("t2", "other").await.unwrap(), "main");
    commit(&ports, turn("t3", "main", Some("t1"))).await;
    assert_eq!(ports.journal.head("main").await.unwrap().as_deref(), Some("t3"));
}
