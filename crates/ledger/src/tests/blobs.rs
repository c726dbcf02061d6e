//! Large values through the ledger's own reads: each is stored once and read whole, and a damaged one must never affect
//! another.

use rusqlite::Connection;
use serde_json::json;

use super::*;
use crate::sqlite::error::sqlite;
use model::{LedgerCheck, LedgerFormat, LedgerReport, SearchOptions, StorageErrorKind};

fn file() -> String {
    "Some \"line\" of a file\n".repeat(50_000)
}

fn image() -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, noise(150_000).as_bytes())
}

/// A turn whose tool read the file, with a picture and a page of text in its question.
fn large(id: &str, label: &str, parent: Option<&str>) -> TurnEnd {
    let mut turn = turn(id, label, parent);
    let data = image();
    turn.messages[0].blocks = vec![
        Block::text(format!("ask {id} of ")),
        Block::text(noise(100_000)),
        Block::Image { mime_type: "image/png".to_owned(), data },
    ];
    for block in &mut turn.messages[2].blocks {
        if let Block::ToolResult { content, .. } = block {
            *content = vec![Block::text(file())];
        }
    }
    turn.tool_calls[0].result = Some(raw(&json!({ "text": file() }).to_string()));
    turn
}

async fn blobs(fixture: &Fixture) -> String {
    fixture.rows("SELECT size, codec FROM blobs ORDER BY size").await
}

async fn verified(fixture: &Fixture) -> LedgerReport {
    fixture.ledger.verify().await.unwrap()
}

async fn write(fixture: &Fixture, sql: &'static str) {
    let work = move |connection: &Connection| {
        connection.execute_batch(sql).map_err(|error| sqlite("break it", &error))
    };
    fixture.ledger.core().unwrap().writer.submit(work).await.unwrap();
}

#[tokio::test]
async fn the_same_file_read_twice_is_stored_once_and_read_whole_everywhere() {
    let fixture = Fixture::new();
    let (first, second) = (large("t1", "main", None), large("t2", "main", Some("t1")));
    fixture.commit(first.clone()).await.unwrap();
    let once = blobs(&fixture).await;
    let codecs: Vec<_> = once.matches("codec\":\"").collect();
    assert_eq!(codecs.len(), 3, "{once}");
    for codec in ["\"raw\"", "\"lz4\"", "\"base64\""] {
        assert!(once.contains(codec), "{once}");
    }
    fixture.commit(second.clone()).await.unwrap();
    assert_eq!(blobs(&fixture).await, once);
    let history = Journal::history(&*fixture.ledger, "main", None, None).await.unwrap();
    let messages: Vec<_> = history.turns.into_iter().flat_map(|turn| turn.messages).collect();
    assert_eq!(messages, [first.messages.clone(), second.messages].concat());
    let row = fixture.ledger.turn("t1").await.unwrap().unwrap();
    let calls =
        fixture.ledger.tool_calls(serde_json::from_value(json!({})).unwrap()).await.unwrap();
    for result in [&row.tool_calls[0].result, &calls.items[1].call.result] {
        let result = result.as_deref().map(RawValue::get);
        assert_eq!(result, first.tool_calls[0].result.as_deref().map(RawValue::get));
    }
    // The values that stay in the rows, and the host's way to read the others.
    let sql = "SELECT content, whole_text('content', content, blobs_json) AS whole FROM messages WHERE id = 't1-m2'";
    let rows: serde_json::Value = serde_json::from_str(&fixture.rows(sql).await).unwrap();
    assert_eq!(rows, json!([{ "content": "", "whole": file() }]));
    let hits = fixture.ledger.search("t2".to_owned(), SearchOptions::default()).await.unwrap();
    assert!(hits.items.last().unwrap().excerpt.starts_with("ask t2 of "));
    let report = verified(&fixture).await;
    assert_eq!((report.problems, report.checked.blobs), (vec![], 3));
    let stats = fixture.ledger.stats().await.unwrap().blobs;
    assert_eq!(stats.count, 3);
    assert!(stats.stored_bytes < stats.bytes && stats.saved_bytes > stats.bytes, "{stats:?}");
}

#[tokio::test]
async fn forks_exports_and_copies_have_them_too() {
    let fixture = Fixture::new();
    fixture.commit(large("t1", "main", None)).await.unwrap();
    let once = blobs(&fixture).await;
    fixture.ledger.fork_at("t1", Some("side"), Some("t1-c0")).await.unwrap();
    let side = LedgerRead::history(&*fixture.ledger, "side").await.unwrap();
    let main = LedgerRead::history(&*fixture.ledger, "main").await.unwrap();
    let contents = |of: &[model::HistoryMessage]| -> Vec<String> {
        of.iter().map(|it| it.message.content.clone()).collect()
    };
    assert_eq!(contents(&side), contents(&main[..3]));
    assert_eq!(blobs(&fixture).await, once);
    let path = fixture.folder.path().join("all.jsonl");
    fixture.ledger.export(&path, LedgerFormat::Ledger, None).await.unwrap();
    let other = Fixture::new();
    let taken = other.ledger.import(&path, LedgerFormat::Ledger, None).await.unwrap();
    assert_eq!((taken.turns, taken.problems), (2, vec![]));
    assert_eq!(blobs(&other).await, once);
    assert_eq!(
        contents(&LedgerRead::history(&*other.ledger, "side").await.unwrap()),
        contents(&side)
    );
    fixture.ledger.vacuum().await.unwrap();
    let copy = fixture.folder.path().join("copy.db");
    fixture.ledger.backup(&copy).await.unwrap();
    for ledger in [open(&copy).unwrap(), Arc::clone(&fixture.ledger)] {
        assert_eq!(
            contents(&LedgerRead::history(&*ledger, "main").await.unwrap()),
            contents(&main)
        );
        assert_eq!(ledger.verify().await.unwrap().problems, []);
    }
}

#[tokio::test]
async fn a_damaged_blob_is_named_and_affects_no_other_value() {
    let fixture = Fixture::new();
    fixture.commit(large("t1", "main", None)).await.unwrap();
    fixture.commit(turn("t2", "other", None)).await.unwrap();
    write(&fixture, "UPDATE blobs SET data = zeroblob(length(data)) WHERE codec = 'lz4'").await;
    let rows = fixture.rows("SELECT hash FROM blobs WHERE codec = 'lz4'").await;
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    let hash = rows[0]["hash"].as_str().unwrap();
    let report = verified(&fixture).await;
    let named: Vec<_> =
        report.problems.iter().map(|it| (it.check, it.subject.as_deref().unwrap())).collect();
    assert_eq!(
        named,
        [
            (LedgerCheck::Checksum, "t1-m2"),
            (LedgerCheck::ToolCalls, "t1-c0"),
            (LedgerCheck::Blobs, hash)
        ]
    );
    let error = LedgerRead::history(&*fixture.ledger, "main").await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Corrupt);
    assert!(error.message.contains("message `t1-m2`") && error.message.contains(hash));
    let sql = "SELECT whole_text('content', content, blobs_json) FROM messages WHERE id = 't1-m2'";
    let limits = model::QueryLimits::default();
    let refused = fixture.ledger.query(sql.to_owned(), "[]".to_owned(), limits).await.unwrap_err();
    assert_eq!(refused.kind, StorageErrorKind::Corrupt);
    // The other messages are read and found.
    assert_eq!(LedgerRead::history(&*fixture.ledger, "other").await.unwrap().len(), 4);
    let hits = fixture.ledger.search("ask".to_owned(), SearchOptions::default()).await.unwrap();
    assert_eq!(hits.items.len(), 2);
}

#[tokio::test]
async fn a_name_without_a_blob_and_a_blob_without_a_name_are_found() {
    let fixture = Fixture::new();
    fixture.commit(large("t1", "main", None)).await.unwrap();
    write(
        &fixture,
        "INSERT INTO blobs (hash, size, codec, data) VALUES
           ('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', 3, 'raw', CAST('abc' AS BLOB))",
    )
    .await;
    let orphan = verified(&fixture).await.problems;
    assert_eq!(orphan.len(), 1);
    assert!(orphan[0].subject.as_deref().unwrap().starts_with("ba7816bf"));
    fixture.ledger.vacuum().await.unwrap();
    assert_eq!(verified(&fixture).await.problems, []);
    write(&fixture, "DELETE FROM blobs WHERE codec = 'base64'").await;
    let lost = verified(&fixture).await.problems;
    let named: Vec<_> = lost.iter().map(|it| (it.check, it.subject.as_deref().unwrap())).collect();
    assert_eq!(named, [(LedgerCheck::Checksum, "t1-m0"), (LedgerCheck::Blobs, "t1-m0")]);
}

#[tokio::test]
async fn a_salvage_restores_them_and_names_the_losses() {
    for damage in [false, true] {
        let fixture = Fixture::new();
        let whole = large("t1", "main", None);
        fixture.commit(whole.clone()).await.unwrap();
        if damage {
            write(&fixture, "UPDATE blobs SET size = size + 1 WHERE codec = 'lz4'").await;
        }
        fixture.ledger.close().await.unwrap();
        let fresh = fixture.folder.path().join("fresh.db");
        let saved = Ledger::salvage(&fixture.path(), &fresh, Clock::fixed(NOW)).await.unwrap();
        let ledger = open(&fresh).unwrap();
        let row = ledger.turn("t1").await.unwrap().unwrap();
        let result = row.tool_calls[0].result.as_deref().map(RawValue::get);
        let saved_messages: Vec<Message> = row.messages.into_iter().map(Message::from).collect();
        let mut expected = whole.messages.clone();
        if damage {
            expected.remove(2);
            assert_eq!(result, None);
            let problems: Vec<_> = saved.problems.iter().map(|it| it.message.as_str()).collect();
            assert!(problems.iter().any(|it| it.contains("message `t1-m2`")), "{problems:?}");
            assert!(problems.iter().any(|it| it.contains("`result_json` of tool call `t1-c0`")));
        } else {
            assert_eq!(saved.problems, []);
            assert_eq!(result, whole.tool_calls[0].result.as_deref().map(RawValue::get));
        }
        assert_eq!(saved_messages, expected);
        assert_eq!(ledger.verify().await.unwrap().problems, []);
    }
}
