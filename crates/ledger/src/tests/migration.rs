//! A ledger of schema version 1, written by the first release: it opens, is migrated in one transaction, and has the same
//! content.

use super::*;
use crate::sqlite::{connection, schema};
use model::{LedgerCheck, SearchOptions, StorageErrorKind};

/// Made by version 0.1.0: a session of three turns (the last failed), one that was forked from it, and one that a host
/// wrote.
const VERSION_1: &[u8] = include_bytes!("fixtures/version-1.db");

#[tokio::test]
async fn a_ledger_of_version_1_opens_with_the_same_content_and_takes_new_turns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    std::fs::write(&path, VERSION_1).unwrap();
    let ledger = open(&path).unwrap();
    let fixture = Fixture { ledger, folder };
    let core = fixture.ledger.core().unwrap();
    let version = core.readers.with(|connection| schema::version(connection)).unwrap();
    assert_eq!(version, schema::MIGRATIONS.len());
    assert_eq!(
        fixture.counts().await,
        r#"[{"turns":5,"messages":11,"calls":1,"sessions":3,"moves":5}]"#
    );
    let texts = |messages: Vec<model::HistoryMessage>| -> Vec<String> {
        messages.into_iter().map(|message| message.message.content).collect()
    };
    assert_eq!(
        texts(LedgerRead::history(&*fixture.ledger, "main").await.unwrap()),
        ["ask 1", "first", "ask 2", "look", r#"{"of":1}"#, "after the tool"]
    );
    assert_eq!(
        texts(LedgerRead::history(&*fixture.ledger, "forked").await.unwrap()),
        ["ask 1", "first", "ask 4", "in the fork"]
    );
    assert_eq!(
        fixture.rows("SELECT count(*) AS n, max(depth) AS depth FROM threads").await,
        r#"[{"n":5,"depth":2}]"#
    );
    // Its messages are found, and the agents of its sessions are known.
    let hits = fixture.ledger.search("ask".to_owned(), SearchOptions::default()).await.unwrap();
    let excerpts: Vec<&str> = hits.items.iter().map(|hit| hit.excerpt.as_str()).collect();
    assert_eq!(excerpts, ["ask 1", "ask 4", "ask 3", "ask 2", "ask 1"]);
    assert_eq!(
        fixture.rows("SELECT DISTINCT agent_id FROM sessions").await,
        r#"[{"agent_id":"default"}]"#
    );
    let head = fixture.ledger.session("main").await.unwrap().unwrap().thread_id.unwrap();
    fixture.commit(turn("t9", "main", Some(&head))).await.unwrap();
    let reopened = open(&fixture.folder.path().join("old.db")).unwrap();
    assert_eq!(reopened.session("main").await.unwrap().unwrap().thread_id.as_deref(), Some("t9"));
}

/// The number of migrations before 110.
const BEFORE_110: usize = 13;

/// The ledger of version 1 before migration 110, changed by `sql`, and opened.
fn changed(sql: &str) -> (Result<Arc<Ledger>, StorageError>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    std::fs::write(&path, VERSION_1).unwrap();
    let connection = connection::open_draft(&path).unwrap();
    schema::migrate(&connection, &schema::MIGRATIONS[..BEFORE_110]).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    connection.execute(sql, ()).unwrap();
    connection.close().unwrap();
    (open(&path), folder)
}

#[tokio::test]
async fn a_message_or_call_that_was_altered_before_it_was_moved_is_still_reported() {
    for (sql, table) in [
        ("UPDATE messages SET created_at = 1 WHERE content = 'ask 1'", "message_rows"),
        ("UPDATE messages SET content = 'ask 9' WHERE content = 'ask 3'", "message"),
        ("UPDATE tool_calls SET result_json = '1'", "call_rows"),
    ] {
        let (ledger, _folder) = changed(sql);
        let problems = ledger.unwrap().verify().await.unwrap().problems;
        assert!(!problems.is_empty(), "{sql}");
        assert!(problems.iter().all(|it| it.check == LedgerCheck::Checksum), "{problems:?}");
        assert!(problems.iter().any(|it| it.message.contains(table) || it.subject.is_some()));
    }
    let (ledger, _folder) = changed("UPDATE sessions SET status = status");
    assert_eq!(ledger.unwrap().verify().await.unwrap().problems, []);
}

#[tokio::test]
async fn a_ledger_with_a_row_of_no_turn_is_refused_and_its_other_turns_can_be_salvaged() {
    let orphan = "UPDATE messages SET turn_id = 'gone' WHERE content = 'ask 3'";
    let (refused, folder) = changed(orphan);
    assert_eq!(refused.unwrap_err().kind, StorageErrorKind::Corrupt);
    let (damaged, fresh) = (folder.path().join("ledger.db"), folder.path().join("fresh.db"));
    let saved = Ledger::salvage(&damaged, &fresh, Clock::fixed(NOW)).await.unwrap();
    assert!(saved.turns >= 5 && saved.messages == 11, "{saved:?}");
}
