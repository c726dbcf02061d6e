//! The host's metadata of turns and sessions: filters and reports by its keys, and the indexes that serve them.

use serde_json::{Value, json};

use super::*;
use crate::reading::{lists, turn_lists, turn_tree, usage};
use model::{Metadata, MetadataKey, SessionChange, SessionFilter, TurnFilter, UsageFilter};

fn filter<T: serde::de::DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

/// Twelve turns in three sessions: two of three have metadata.
async fn written() -> Fixture {
    let fixture = Fixture::new();
    for number in 0..12_usize {
        let mut turn = turn(&format!("t{number:02}"), &format!("s{}", number % 3), None);
        turn.header.expected_head = number.checked_sub(3).map(|before| format!("t{before:02}"));
        if number % 3 != 2 {
            let metadata =
                json!({ "userId": format!("u{}", number % 2), "n": number, "beta": number < 6 });
            turn.settings.metadata =
                Some(Metadata::parse("metadata", &metadata.to_string()).unwrap());
        }
        fixture.commit(turn).await.unwrap();
    }
    fixture
}

async fn ids(fixture: &Fixture, json: Value) -> Vec<String> {
    let page = fixture.ledger.turns(filter(json)).await.unwrap();
    page.items.into_iter().map(|turn| turn.id).collect()
}

#[tokio::test]
async fn turns_are_found_by_the_values_of_their_metadata_with_and_without_an_index() {
    let fixture = written().await;
    let read = async || {
        let found = [
            json!({ "metadata": { "userId": "u1" } }),
            json!({ "metadata": { "userId": "u1", "beta": true } }),
            json!({ "metadata": { "n": 4 } }),
            json!({ "metadata": { "n": "4" } }),
            json!({ "metadata": { "userId": "u1" }, "sessionLabel": "s0" }),
            json!({ "metadata": { "userId": "u0" }, "after": "t04", "limit": 1 }),
        ];
        let mut lists = Vec::new();
        for filter in found {
            lists.push(ids(&fixture, filter).await);
        }
        lists
    };
    let expected: [&[&str]; 6] =
        [&["t01", "t03", "t07", "t09"], &["t01", "t03"], &["t04"], &[], &["t03", "t09"], &["t06"]];
    assert_eq!(read().await, expected);
    let key = MetadataKey::parse("userId").unwrap();
    let index = async |indexed| fixture.ledger.index_metadata(key.clone(), indexed).await.unwrap();
    assert_eq!((index(true).await, index(true).await), (true, false));
    assert_eq!(read().await, expected);
    assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
    assert_eq!((index(false).await, index(false).await), (true, false));
    assert_eq!(read().await, expected);
}

#[tokio::test]
async fn an_index_of_a_key_serves_its_filters_and_its_report() {
    let fixture = written().await;
    let key = MetadataKey::parse("userId").unwrap();
    fixture.ledger.index_metadata(key.clone(), true).await.unwrap();
    let core = fixture.ledger.core().unwrap();
    core.readers
        .with(|connection| {
            let turns: TurnFilter = filter(json!({ "metadata": { "userId": "u1" } }));
            let (turns, _) = turn_lists::selection(&turns, &turn_tree::summary_columns());
            let sessions: SessionFilter = filter(json!({ "metadata": { "userId": "u1" } }));
            let (sessions, _) = lists::sessions_with(&sessions.metadata.unwrap());
            let report = usage::of_metadata(&key, "");
            for (sql, index) in [
                (turns, "turn_metadata_by_userId"),
                (sessions, "session_metadata_by_userId"),
                (report, "turn_metadata_by_userId"),
            ] {
                let plan = plans::plan(connection, &sql);
                // The runs under way are few.
                let plan = plan.replace("SCAN runs USING INDEX runs_in_journal", "");
                assert!(plan.contains(&format!("INDEX {index} (<expr>")), "{sql}: {plan}");
                assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{sql}: {plan}");
            }
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn a_list_of_turns_without_a_key_walks_only_what_it_returns() {
    let fixture = written().await;
    let core = fixture.ledger.core().unwrap();
    core.readers
        .with(|connection| {
            for json in [
                json!({}),
                json!({ "sessionLabel": "s1" }),
                json!({ "provider": "anthropic", "model": "claude" }),
                json!({ "since": NOW, "until": NOW + 1 }),
            ] {
                let (sql, _) = turn_lists::selection(&filter(json), &turn_tree::summary_columns());
                let plan = plans::plan(connection, &sql);
                assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{sql}: {plan}");
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(ids(&fixture, json!({ "sessionLabel": "s1" })).await, ["t01", "t04", "t07", "t10"]);
    assert_eq!(ids(&fixture, json!({ "since": NOW + 1 })).await, [""; 0]);
    assert_eq!(ids(&fixture, json!({ "until": NOW + 1, "limit": 2 })).await, ["t00", "t01"]);
    assert_eq!(
        ids(&fixture, json!({ "model": "claude", "provider": "anthropic" })).await.len(),
        12
    );
    assert_eq!(ids(&fixture, json!({ "status": "aborted" })).await, [""; 0]);
}

#[tokio::test]
async fn usage_is_added_up_by_a_key_of_the_metadata() {
    let fixture = written().await;
    let usage = async |json: Value| {
        let page = fixture.ledger.usage(filter::<UsageFilter>(json)).await.unwrap();
        let rows = page.items.into_iter().map(|row| (row.key, row.turns, row.usage.total_tokens));
        (rows.collect::<Vec<_>>(), page.next)
    };
    let row = |key: &str, turns: u64| (key.to_owned(), turns, turns * 127);
    let by_user = vec![row("u0", 4), row("u1", 4)];
    assert_eq!(usage(json!({ "by": "metadata.userId" })).await, (by_user, None));
    let (first, next) = usage(json!({ "by": "metadata.beta", "limit": 1 })).await;
    assert_eq!((first, next.as_deref()), (vec![row("false", 4)], Some("false")));
    let rest = usage(json!({ "by": "metadata.beta", "limit": 1, "after": next })).await;
    assert_eq!(rest, (vec![row("true", 4)], None));
    let of_session = usage(json!({ "by": "metadata.userId", "sessionLabel": "s1" })).await;
    assert_eq!(of_session.0, [row("u0", 2), row("u1", 2)]);
    let of_user = usage(json!({ "by": "session", "metadata": { "userId": "u1" } })).await;
    assert_eq!(of_user.0, [row("s0", 2), row("s1", 2)]);
    let both = usage(json!({ "by": "metadata.beta", "metadata": { "userId": "u1" } })).await;
    assert_eq!(both.0, [row("false", 2), row("true", 2)]);
    let none = usage(json!({ "by": "metadata.other" })).await;
    assert_eq!(none, (Vec::new(), None));
}

#[tokio::test]
async fn a_running_turn_has_its_metadata_and_its_end_stores_it() {
    let fixture = Fixture::new();
    let metadata = Metadata::parse("metadata", r#"{"userId":"u1"}"#).unwrap();
    let whole = turn("t1", "main", None);
    let mut begun = opening(&whole);
    begun.settings.metadata = Some(metadata.clone());
    let model::Opened::Leased(epoch) = fixture.ledger.begin(begun).await.unwrap() else {
        panic!("the session is free");
    };
    let running = LedgerRead::turn(&*fixture.ledger, "t1").await.unwrap().unwrap();
    assert_eq!(running.metadata.as_ref(), Some(&metadata));
    let open = fixture.ledger.interrupted(Some("t1")).await.unwrap();
    assert_eq!(open.len(), 0);
    let mut end = *ending(&whole, epoch, 1);
    end.tool_calls.clone_from(&whole.tool_calls);
    fixture.commit(end).await.unwrap();
    let ended = LedgerRead::turn(&*fixture.ledger, "t1").await.unwrap().unwrap();
    assert_eq!((ended.status.as_str(), ended.metadata.as_ref()), ("completed", Some(&metadata)));
    assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
}

#[tokio::test]
async fn the_metadata_of_a_session_is_set_replaced_and_removed() {
    let fixture = Fixture::new();
    let ledger = &fixture.ledger;
    let change = |json: Value| filter::<SessionChange>(json);
    let given = change(json!({ "metadata": { "userId": "u1", "deep": { "a": [1] } } }));
    let created = ledger.create_session("main".to_owned(), given).await.unwrap();
    let text = r#"{"deep":{"a":[1]},"userId":"u1"}"#;
    assert_eq!((created.thread_id, created.metadata.unwrap().as_str()), (None, text));
    let taken =
        ledger.create_session("main".to_owned(), SessionChange::default()).await.unwrap_err();
    assert_eq!(taken.kind, model::StorageErrorKind::Constraint);
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let labels = async |json: Value| {
        let page = ledger.sessions(filter(json)).await.unwrap();
        page.items.into_iter().map(|session| session.label).collect::<Vec<_>>()
    };
    assert_eq!(labels(json!({ "metadata": { "userId": "u1" } })).await, ["main"]);
    ledger.update_session("main".to_owned(), SessionChange::default()).await.unwrap();
    assert_eq!(
        labels(json!({ "metadata": { "userId": "u1" }, "status": "active" })).await,
        ["main"]
    );
    let replaced = change(json!({ "metadata": { "userId": "u2" } }));
    ledger.update_session("main".to_owned(), replaced).await.unwrap();
    assert_eq!(labels(json!({ "metadata": { "userId": "u1" } })).await, [""; 0]);
    let removed =
        ledger.update_session("main".to_owned(), change(json!({ "metadata": null }))).await;
    assert_eq!(removed.unwrap().metadata, None);
    let unknown =
        ledger.update_session("none".to_owned(), SessionChange::default()).await.unwrap_err();
    assert_eq!(unknown.kind, model::StorageErrorKind::UnknownSession);
    assert_eq!(ledger.verify().await.unwrap().problems, []);
}
