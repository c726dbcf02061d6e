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

/// The numbers of migrations before 110 and before 120.
const BEFORE_110: usize = 13;
const BEFORE_120: usize = 14;

/// The ledger of version 1 before a migration, changed by `sql`, and opened.
fn changed(before: usize, sql: &str) -> (Result<Arc<Ledger>, StorageError>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    std::fs::write(&path, VERSION_1).unwrap();
    let connection = connection::open_draft(&path).unwrap();
    schema::migrate(&connection, &schema::MIGRATIONS[..before]).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    connection.execute_batch(sql).unwrap();
    connection.close().unwrap();
    (open(&path), folder)
}

#[test]
fn a_ledger_whose_id_is_gone_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    open(&path).unwrap();
    let connection = connection::open_draft(&path).unwrap();
    connection.execute_batch("DELETE FROM schema_meta").unwrap();
    connection.close().unwrap();
    assert_eq!(open(&path).unwrap_err().kind, StorageErrorKind::Corrupt);
}

#[tokio::test]
async fn a_message_or_call_that_was_altered_before_it_was_moved_is_still_reported() {
    for (sql, table) in [
        ("UPDATE messages SET created_at = 1 WHERE content = 'ask 1'", "message_values"),
        ("UPDATE messages SET content = 'ask 9' WHERE content = 'ask 3'", "message"),
        ("UPDATE tool_calls SET result_json = '1'", "call_values"),
    ] {
        let (ledger, _folder) = changed(BEFORE_110, sql);
        let problems = ledger.unwrap().verify().await.unwrap().problems;
        assert!(!problems.is_empty(), "{sql}");
        assert!(problems.iter().all(|it| it.check == LedgerCheck::Checksum), "{problems:?}");
        assert!(problems.iter().any(|it| it.message.contains(table) || it.subject.is_some()));
    }
    let (ledger, _folder) = changed(BEFORE_110, "UPDATE sessions SET status = status");
    assert_eq!(ledger.unwrap().verify().await.unwrap().problems, []);
}

#[tokio::test]
async fn a_turn_that_was_altered_before_its_row_became_narrow_is_still_reported() {
    for sql in [
        "UPDATE turns SET model = 'other' WHERE depth = 0",
        "UPDATE turns SET run_id = 'other' WHERE depth = 0",
        "UPDATE turns SET row_checksum = 1 WHERE depth = 0",
        "UPDATE turns SET tools_available = '[1]' WHERE depth = 0",
    ] {
        let (ledger, _folder) = changed(BEFORE_120, sql);
        let problems = ledger.unwrap().verify().await.unwrap().problems;
        assert!(
            problems.iter().any(|it| it.message == "is not as it was written to `turns`"),
            "{sql}"
        );
    }
    let (ledger, _folder) = changed(BEFORE_120, "UPDATE sessions SET status = status");
    assert_eq!(ledger.unwrap().verify().await.unwrap().problems, []);
}

#[test]
fn the_view_of_turns_has_the_columns_and_the_values_that_the_table_had() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    std::fs::write(&path, VERSION_1).unwrap();
    let connection = connection::open_draft(&path).unwrap();
    schema::migrate(&connection, &schema::MIGRATIONS[..BEFORE_120]).unwrap();
    let columns: String = connection
        .query_row("SELECT group_concat(name, ', ') FROM pragma_table_info('turns')", (), |row| {
            row.get(0)
        })
        .unwrap();
    let rows = || -> Vec<String> {
        let select = format!("SELECT {columns} FROM turns ORDER BY id");
        let mut statement = connection.prepare(&select).unwrap();
        let count = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            (0..count).map(|at| Ok(format!("{:?}", row.get_ref(at)?))).collect()
        };
        statement.query_map((), row).unwrap().map(Result::unwrap).collect()
    };
    let before = rows();
    schema::migrate(&connection, schema::MIGRATIONS).unwrap();
    assert_eq!(before.len(), 5);
    assert_eq!(rows(), before);
    let all: i64 = connection
        .query_row("SELECT count(*) FROM pragma_table_info('turns')", (), |row| row.get(0))
        .unwrap();
    assert_eq!(usize::try_from(all).unwrap(), columns.split(", ").count());
}

#[tokio::test]
async fn a_ledger_with_a_row_of_no_turn_is_refused_and_its_other_turns_can_be_salvaged() {
    let orphan = "UPDATE messages SET turn_id = 'gone' WHERE content = 'ask 3'";
    let (refused, folder) = changed(BEFORE_110, orphan);
    assert_eq!(refused.unwrap_err().kind, StorageErrorKind::Corrupt);
    let (damaged, fresh) = (folder.path().join("ledger.db"), folder.path().join("fresh.db"));
    let saved = Ledger::salvage(&damaged, &fresh, Clock::fixed(NOW)).await.unwrap();
    assert!(saved.turns >= 5 && saved.messages == 11, "{saved:?}");
    let lost = "DROP TRIGGER turns_depth_on_update;
         UPDATE turns SET parent_turn_id = 'gone', depth = 9 WHERE depth = 1";
    let (refused, _folder) = changed(BEFORE_120, lost);
    assert_eq!(refused.unwrap_err().kind, StorageErrorKind::Corrupt);
}
