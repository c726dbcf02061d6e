//! The host's SQL: the statements that are allowed, and those that are refused.

use std::time::Duration;

use super::*;
use crate::search::search_indexer;
use model::{QueryLimits, QueryResult, StorageErrorKind, Truncation};

async fn query(fixture: &Fixture, sql: &str, params: &str) -> Result<QueryResult, StorageError> {
    fixture.ledger.query(sql.to_owned(), params.to_owned(), QueryLimits::default()).await
}

#[tokio::test]
async fn values_come_as_json_that_loses_nothing() {
    let fixture = Fixture::new();
    let result = query(
        &fixture,
        "SELECT ?1 AS a, ?2 AS a, ?3 AS b, 9007199254740993 AS big, x'00ff' AS bytes, 9e999 AS inf, ?4 AS t",
        r#"["x", 1.5, null, true]"#,
    )
    .await
    .unwrap();
    assert_eq!(
        serde_json::to_string(&result).unwrap(),
        r#"{"columns":["a","a_2","b","big","bytes","inf","t"],"rows":[{"a":"x","a_2":1.5,"b":null,"big":"9007199254740993","bytes":"00ff","inf":"inf","t":1}],"truncated":null}"#
    );
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let core = fixture.ledger.core().unwrap();
    core.writer.submit(search_indexer::slice).await.unwrap();
    let words = "SELECT count(*) AS n FROM message_words WHERE message_words MATCH 'ask'";
    let found = query(&fixture, words, "[]").await.unwrap();
    assert_eq!(serde_json::to_string(&found.rows).unwrap(), r#"[{"n":1}]"#);
    let json = query(&fixture, "SELECT value FROM json_each('[1,2]')", "[]").await.unwrap();
    assert_eq!(serde_json::to_string(&json.rows).unwrap(), r#"[{"value":1},{"value":2}]"#);
}

#[tokio::test]
async fn everything_but_one_read_is_refused() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let before = fixture.counts().await;
    for (sql, params) in [
        ("INSERT INTO sessions (label, created_at, updated_at) VALUES ('x', 1, 1)", "[]"),
        ("UPDATE turns SET model = 'x'", "[]"),
        ("DELETE FROM messages", "[]"),
        ("DELETE FROM messages RETURNING id", "[]"),
        ("DROP TABLE messages", "[]"),
        ("CREATE TEMP TABLE x (a)", "[]"),
        ("PRAGMA user_version", "[]"),
        ("PRAGMA data_version = 1", "[]"),
        ("INSERT INTO message_words (message_words) VALUES ('delete-all')", "[]"),
        ("INSERT INTO message_words (rowid, words) VALUES (9, 'x')", "[]"),
        ("DELETE FROM message_words_data", "[]"),
        ("PRAGMA user_version = 9", "[]"),
        ("PRAGMA writable_schema = 1", "[]"),
        ("SELECT * FROM pragma_user_version", "[]"),
        ("ATTACH ':memory:' AS other", "[]"),
        ("DETACH main", "[]"),
        ("SELECT load_extension('x')", "[]"),
        ("SELECT LOAD_EXTENSION('x')", "[]"),
        ("VACUUM INTO '/tmp/copy.db'", "[]"),
        ("BEGIN", "[]"),
        ("SAVEPOINT x", "[]"),
        ("REINDEX", "[]"),
        ("ANALYZE", "[]"),
        ("SELECT 1; SELECT 2", "[]"),
        ("SELECT 1; DELETE FROM turns", "[]"),
        ("EXPLAIN DELETE FROM turns", "[]"),
        ("", "[]"),
        ("-- nothing", "[]"),
        ("SELEC 1", "[]"),
        ("SELECT missing FROM turns", "[]"),
        ("SELECT \"main\" FROM turns", "[]"),
        ("SELECT ?1", "[]"),
        ("SELECT 1", "[1]"),
        ("SELECT ?1", "[[1]]"),
        ("SELECT ?1", "[{}]"),
        ("SELECT ?1", "{}"),
        ("SELECT abs(-9223372036854775808)", "[]"),
        ("SELECT hex(zeroblob(100000000))", "[]"),
    ] {
        let error = query(&fixture, sql, params).await.unwrap_err();
        assert_eq!(error.kind, StorageErrorKind::InvalidQuery, "{sql}: {error}");
    }
    assert_eq!(fixture.counts().await, before);
    assert!(!std::path::Path::new("/tmp/copy.db").exists());
}

#[tokio::test]
async fn a_cut_of_rows_or_bytes_is_reported() {
    let fixture = Fixture::new();
    let numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100) SELECT i FROM n";
    for (rows, bytes, returned, truncated) in [
        (10, 1 << 20, 10, Some(Truncation::Rows)),
        (1_000, 80, 10, Some(Truncation::Bytes)),
        (100, 800, 100, None),
    ] {
        let limits = QueryLimits { rows, bytes, ..QueryLimits::default() };
        let result =
            fixture.ledger.query(numbers.to_owned(), "[]".to_owned(), limits).await.unwrap();
        assert_eq!((result.rows.len(), result.truncated), (returned, truncated));
    }
}

#[tokio::test]
async fn a_query_without_end_is_ended_and_the_next_one_works() {
    let fixture = Fixture::new();
    let endless =
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    let limits = QueryLimits { time: Duration::ZERO, ..QueryLimits::default() };
    let error =
        fixture.ledger.query(endless.to_owned(), "[]".to_owned(), limits).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::InvalidQuery);
    assert_eq!(error.message, "the query ran longer than `0` ms; narrow it");
    assert_eq!(fixture.rows("SELECT 1 AS one").await, r#"[{"one":1}]"#);
}
