//! Aliases, personas, archived sessions, and forks at a tool call. A name must never hide a session in use.

use crate::store::Fixture;
use crate::turns::{short_turn, turn};
use model::StorageErrorKind::{self, Constraint, UnknownToolCall, UnknownTurn};
use model::{PageOptions, StorageError, TokenUsage, ToolCallStatus};

async fn refused<T: std::fmt::Debug>(
    request: impl Future<Output = Result<T, StorageError>>,
) -> (StorageErrorKind, Option<String>) {
    let error = request.await.unwrap_err();
    (error.kind, error.field)
}

fn at(kind: StorageErrorKind, field: &str) -> (StorageErrorKind, Option<String>) {
    (kind, Some(field.to_owned()))
}

async fn name(fixture: &Fixture, alias: &str, label: &str) -> Result<(), StorageError> {
    fixture.ledger.admin.set_alias(alias.to_owned(), label.to_owned()).await.map(drop)
}

pub async fn an_alias_names_its_session_in_every_call_with_a_label(fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    name(&fixture, "b", "main").await.unwrap();
    name(&fixture, "a", "b").await.unwrap();
    let ledger = &fixture.ledger;
    assert_eq!(ledger.read.resolve("a".to_owned()).await.unwrap(), "main");
    assert_eq!(ledger.read.session("a").await.unwrap().unwrap().label, "main");
    assert_eq!(ledger.read.history("a").await.unwrap(), ledger.read.history("main").await.unwrap());
    let written = ledger.admin.write_turn(turn("t2", "a", None)).await.unwrap();
    assert_eq!(written.head.as_deref(), Some("t2"));
    assert_eq!(
        ledger.read.session("main").await.unwrap().unwrap().thread_id.as_deref(),
        Some("t2")
    );
    assert_eq!(ledger.read.resolve("nobody".to_owned()).await.unwrap(), "nobody");
    let straight =
        ledger.read.aliases(Some("main".to_owned()), PageOptions::default()).await.unwrap();
    assert_eq!(straight.items.iter().map(|row| row.alias.as_str()).collect::<Vec<_>>(), ["b"]);
    let all = ledger.read.aliases(None, PageOptions::default()).await.unwrap();
    assert_eq!(all.items.len(), 2);
    assert!(ledger.admin.remove_alias("b".to_owned()).await.unwrap());
    assert!(!ledger.admin.remove_alias("b".to_owned()).await.unwrap());
    assert_eq!(ledger.read.resolve("a".to_owned()).await.unwrap(), "b");
}

pub async fn aliases_make_no_cycle_no_long_chain_and_hide_no_session_in_use(fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    assert_eq!(refused(name(&fixture, "main", "x")).await, at(Constraint, "alias"));
    assert_eq!(refused(name(&fixture, "a", "a")).await, at(Constraint, "label"));
    for number in 0..7 {
        name(&fixture, &format!("a{number}"), &format!("a{}", number + 1)).await.unwrap();
    }
    assert_eq!(refused(name(&fixture, "a7", "a0")).await, at(Constraint, "label"));
    // A chain of eight aliases, and one more at either end.
    name(&fixture, "a7", "main").await.unwrap();
    assert_eq!(fixture.ledger.read.resolve("a0".to_owned()).await.unwrap(), "main");
    assert_eq!(refused(name(&fixture, "b", "a0")).await, at(Constraint, "alias"));
    name(&fixture, "z", "end").await.unwrap();
    assert_eq!(refused(name(&fixture, "a7", "z")).await, at(Constraint, "alias"));
    let taken = fixture.ledger.admin.fork("t1", Some("a0"));
    assert_eq!(refused(taken).await, at(Constraint, "label"));
}

pub async fn an_alias_replaces_an_archived_session_and_a_turn_reactivates_one(fixture: Fixture) {
    fixture.commit(turn("t1", "old", None)).await.unwrap();
    fixture.commit(turn("t2", "new", None)).await.unwrap();
    let ledger = &fixture.ledger;
    let archive = |archived| ledger.admin.set_archived("old".to_owned(), archived);
    assert_eq!(archive(true).await.unwrap().status, "archived");
    assert_eq!(ledger.read.resolve("old".to_owned()).await.unwrap(), "old");
    name(&fixture, "old", "new").await.unwrap();
    assert_eq!(ledger.read.resolve("old".to_owned()).await.unwrap(), "new");
    assert_eq!(refused(archive(false)).await, at(Constraint, "label"));
    ledger.admin.remove_alias("old".to_owned()).await.unwrap();
    fixture.commit(turn("t3", "old", Some("t1"))).await.unwrap();
    assert_eq!(ledger.read.session("old").await.unwrap().unwrap().status, "active");
    let unknown = ledger.admin.set_archived("none".to_owned(), true).await.unwrap_err();
    assert_eq!(unknown.kind, StorageErrorKind::UnknownSession);
}

pub async fn a_persona_has_one_main_session_which_has_that_persona(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let made = ledger.admin.put_persona("atlas".to_owned(), None).await.unwrap();
    assert_eq!(made.main_session_label, "agent:atlas:main");
    fixture.commit(turn("t1", "agent:atlas:main", None)).await.unwrap();
    fixture.commit(turn("t2", "dm:x:persona:p", None)).await.unwrap();
    ledger.admin.fork("t1", Some("side")).await.unwrap();
    fixture.commit(turn("t3", "agent:b:dm:x", None)).await.unwrap();
    ledger.admin.fork("t3", Some("free")).await.unwrap();
    for (label, persona, agent) in [
        ("agent:atlas:main", "atlas", "atlas"),
        ("dm:x:persona:p", "p", "p"),
        ("side", "atlas", "atlas"),
        ("free", "default", "b"),
    ] {
        let row = ledger.read.session(label).await.unwrap().unwrap();
        assert_eq!((row.persona_id.as_str(), row.agent_id.as_str()), (persona, agent));
    }
    let other = ledger.admin.put_persona("b".to_owned(), Some("agent:atlas:main".to_owned()));
    assert_eq!(refused(other).await, at(Constraint, "mainSessionLabel"));
    let moved =
        ledger.admin.put_persona("atlas".to_owned(), Some("desk".to_owned())).await.unwrap();
    assert_eq!(ledger.read.persona("atlas".to_owned()).await.unwrap(), Some(moved.clone()));
    assert_eq!(ledger.read.personas(PageOptions::default()).await.unwrap().items, [moved]);
    assert_eq!(ledger.read.persona("none".to_owned()).await.unwrap(), None);
}

pub async fn a_fork_at_a_tool_call_has_the_same_messages_up_to_its_result_and_leaves_the_turn_alone(
    fixture: Fixture,
) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    fixture.commit(turn("t2", "main", Some("t1"))).await.unwrap();
    let ledger = &fixture.ledger;
    let all = |of: &'static str| async move {
        serde_json::to_string(&ledger.read.turn(of).await.unwrap()).unwrap()
    };
    let before = all("t2").await;
    let session = ledger.admin.fork_at("t2", Some("retry"), Some("t2-c0")).await.unwrap();
    let id = session.thread_id.unwrap();
    assert_eq!(all("t2").await, before);
    let turn = ledger.read.turn(&id).await.unwrap().unwrap();
    assert_eq!((turn.parent_turn_id.as_deref(), turn.depth, turn.cost), (Some("t1"), 1, Some(0.0)));
    assert_eq!(
        (turn.status.as_str(), turn.usage, turn.thread_tokens),
        ("completed", TokenUsage::default(), 127)
    );
    let original = ledger.read.turn("t2").await.unwrap().unwrap();
    assert_eq!(turn.messages, original.messages[..3]);
    assert_eq!(turn.response_message_id.as_deref(), Some("t2-m1"));
    assert_eq!(turn.query_message_ids, ["t2-m0"]);
    let [call] = &turn.tool_calls[..] else { panic!("one call") };
    assert_ne!(call.call_id, "t2-c0");
    assert_eq!((call.id.as_str(), call.status), ("call_0", ToolCallStatus::Completed));
    let texts: Vec<String> = ledger
        .read
        .history("retry")
        .await
        .unwrap()
        .into_iter()
        .map(|it| it.message.content)
        .collect();
    assert_eq!(
        texts,
        ["ask t1", "I look.", "content of a", "done t1", "ask t2", "I look.", "content of a"]
    );
    let later = fixture.commit(short_turn("t3", "retry", Some(&id))).await.unwrap();
    assert_eq!(later.head.as_deref(), Some("t3"));
    let counts = fixture.counts().await;
    let wrong = ledger.admin.fork_at("t2", None, Some("t1-c0"));
    assert_eq!(refused(wrong).await, at(UnknownToolCall, "options.atToolCall"));
    assert_eq!(refused(ledger.admin.fork_at("none", None, Some("t1-c0"))).await.0, UnknownTurn);
    assert_eq!(fixture.counts().await, counts);
}
