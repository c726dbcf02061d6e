//! Every read of the ledger against the model.
//!
//! It must never write.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::*;
use super::memory::Memory;
use model::{AgentMessage, HistoryBase, OpenTurn, StorageErrorKind};

type Compared = Result<(), TestCaseError>;

fn value(of: &impl serde::Serialize) -> Value {
    serde_json::to_value(of).unwrap()
}

fn shown(messages: &[Message]) -> Value {
    value(&messages.iter().cloned().map(AgentMessage::from).collect::<Vec<_>>())
}

/// Every read that there is, of everything that there is.
pub(super) async fn all(fixture: &Fixture, memory: &Memory) -> Compared {
    let labels: Vec<String> = (0..6).map(|n| format!("s{n}")).chain(["again".to_owned()]).collect();
    for label in &labels {
        session(fixture, memory, label).await?;
    }
    for id in memory.turns.keys() {
        turn(fixture, memory, id).await?;
    }
    interrupted(fixture, memory).await?;
    search(fixture, memory).await?;
    tables(fixture, memory).await
}

async fn session(fixture: &Fixture, memory: &Memory, label: &str) -> Compared {
    let ledger = &fixture.ledger;
    let seen = memory.seen(label);
    let head = seen.and_then(|session| session.head.clone());
    let row = ledger.session(label).await.unwrap();
    prop_assert_eq!(
        row.map(|row| (row.label, row.thread_id)),
        seen.map(|session| (label.to_owned(), session.head.clone()))
    );
    prop_assert_eq!(Journal::head(ledger.as_ref(), label).await.unwrap(), memory.head(label));
    let messages = ledger.messages(label).await.map_err(|error| error.kind);
    prop_assert_eq!(
        messages.map(|messages| value(&messages)),
        seen.map(|_| said(memory, head.as_deref())).ok_or(StorageErrorKind::UnknownSession)
    );
    // Whatever the caller knows: nothing, any turn, or one that is not there.
    let known = memory.turns.keys().map(|id| Some(id.as_str()));
    for known in known.chain([None, Some("nowhere")]) {
        let history = ledger.history(label, None, known).await.unwrap();
        prop_assert_eq!((history.exists, &history.head), (seen.is_some(), &head));
        told(&history, memory, head.as_deref(), known)?;
    }
    Ok(())
}

/// The messages of the context at `head`, as a host is told them.
fn said(memory: &Memory, head: Option<&str>) -> Value {
    let context = memory.context(head);
    let messages = context.iter().flat_map(|(id, _)| {
        memory.turns[id].messages.iter().map(move |message| {
            let mut shown = value(&AgentMessage::from(message.clone()));
            shown["turnId"] = json!(id);
            shown
        })
    });
    messages.collect()
}

fn told(
    history: &model::SessionHistory,
    memory: &Memory,
    head: Option<&str>,
    known: Option<&str>,
) -> Compared {
    let (base, turns) = memory.news(head, known);
    let facts: Vec<_> = history.turns.iter().map(|turn| (turn.id.clone(), turn.edited)).collect();
    prop_assert_eq!((history.base, facts), (base, turns));
    let first = history.turns.first().map(|turn| memory.turns[&turn.id].compaction.is_some());
    let summarised = base == HistoryBase::Root && first == Some(true);
    prop_assert_eq!(history.summarised, summarised);
    for turn in &history.turns {
        let kept = &memory.turns[&turn.id];
        prop_assert_eq!((turn.status, &turn.messages), (kept.status, &kept.messages));
    }
    Ok(())
}

async fn turn(fixture: &Fixture, memory: &Memory, id: &str) -> Compared {
    let ledger = &fixture.ledger;
    let kept = &memory.turns[id];
    let row = ledger.turn(id).await.unwrap().unwrap();
    prop_assert_eq!(
        (&row.parent_turn_id, row.status.as_str(), &row.session_label, row.depth, row.has_children),
        (
            &kept.parent,
            kept.status.as_str(),
            &kept.session,
            i64::try_from(memory.chain(Some(id)).len()).unwrap() - 1,
            memory.has_children(id),
        )
    );
    let kind = if kept.compaction.is_some() { "compaction" } else { "normal" };
    prop_assert_eq!((row.turn_type.as_str(), &row.compaction), (kind, &kept.compaction));
    prop_assert_eq!(value(&row.messages), shown(&kept.messages));
    let calls: Vec<_> = kept.calls.iter().map(|call| &call.row).collect();
    prop_assert_eq!(value(&row.tool_calls), value(&calls));
    let history = ledger.history("elsewhere", Some(id), None).await.map_err(|error| error.kind);
    let messages = ledger.messages(id).await.map_err(|error| error.kind);
    if kept.open.is_some() {
        // It is there for who asks by its id, and in no history.
        prop_assert_eq!(row.stop_reason, None);
        prop_assert_eq!(history.map(drop), Err(StorageErrorKind::UnknownTurn));
        prop_assert_eq!(messages.map(drop), Err(StorageErrorKind::UnknownSession));
    } else {
        prop_assert_eq!(row.thread_tokens, memory.tokens(id));
        told(&history.unwrap(), memory, Some(id), None)?;
        prop_assert_eq!(value(&messages.unwrap()), said(memory, Some(id)));
    }
    Ok(())
}

async fn interrupted(fixture: &Fixture, memory: &Memory) -> Compared {
    let expected = memory.interrupted();
    let listed = fixture.ledger.interrupted(None).await.unwrap();
    prop_assert_eq!(listed.iter().map(|turn| &turn.turn_id).collect::<Vec<_>>(), expected.clone());
    for turn in &listed {
        open_turn(turn, memory)?;
    }
    let expected: BTreeSet<_> = expected.into_iter().collect();
    for id in memory.turns.keys() {
        let found = fixture.ledger.interrupted(Some(id)).await.unwrap();
        prop_assert_eq!(found.len(), usize::from(expected.contains(id)));
    }
    Ok(())
}

/// What users asked and assistants answered in turns that have ended, and nothing else.
async fn search(fixture: &Fixture, memory: &Memory) -> Compared {
    for word in ["ask", "done", "hm", "content"] {
        let options = serde_json::from_value(json!({ "limit": 1_000 })).unwrap();
        let page = fixture.ledger.search(word.to_owned(), options).await.unwrap();
        let mut found: Vec<_> =
            page.items.into_iter().map(|hit| (hit.turn_id, hit.message_id)).collect();
        found.sort();
        let ended = memory.turns.iter();
        let ended = ended.filter(|(_, turn)| turn.open.is_none() && turn.compaction.is_none());
        let said = ended.flat_map(|(id, turn)| {
            let messages = turn.messages.iter().filter(|message| {
                message.role != Role::Tool
                    && message.content().split(|c: char| !c.is_alphanumeric()).any(|it| it == word)
            });
            messages.map(|message| (id.clone(), message.id.clone()))
        });
        let mut said: Vec<_> = said.collect();
        said.sort();
        prop_assert_eq!(found, said, "{}", word);
    }
    Ok(())
}

/// A turn under way as recovery is told it.
pub(super) fn open_turn(turn: &OpenTurn, memory: &Memory) -> Compared {
    let kept = &memory.turns[&turn.turn_id];
    let open = kept.open.as_ref().unwrap();
    let head = memory.head(&kept.session);
    let moved = head != open.expected && !memory.rebased(head.as_deref(), open.expected.as_deref());
    prop_assert_eq!(
        (&turn.session_label, &turn.parent_turn_id, &turn.expected_head, turn.moved),
        (&kept.session, &kept.parent, &open.expected, moved)
    );
    prop_assert_eq!((turn.epoch, turn.progress.iterations), (open.epoch, open.iterations));
    prop_assert_eq!(&turn.messages, &kept.messages);
    let calls: Vec<_> =
        turn.calls.iter().map(|call| (value(&call.row), call.replay, call.begun)).collect();
    let expected: Vec<_> =
        kept.calls.iter().map(|call| (value(&call.row), call.replay, call.begun)).collect();
    prop_assert_eq!(calls, expected);
    Ok(())
}

/// The rows themselves, by the ledger's own SQL.
async fn tables(fixture: &Fixture, memory: &Memory) -> Compared {
    let rows = |sql: &'static str| async move {
        serde_json::from_str::<Value>(&fixture.rows(sql).await).unwrap()
    };
    let turns = memory.turns.values();
    let open = turns.clone().filter(|turn| turn.open.is_some()).count();
    prop_assert_eq!(
        rows(
            "SELECT (SELECT count(*) FROM turns) AS turns, (SELECT count(*) FROM open_turns) AS open,
               (SELECT count(*) FROM messages) AS messages, (SELECT count(*) FROM tool_calls) AS calls,
               (SELECT count(*) FROM compactions) AS compactions, (SELECT count(*) FROM sessions) AS sessions",
        )
        .await,
        json!([{
            "turns": turns.len(),
            "open": open,
            "messages": turns.clone().map(|turn| turn.messages.len()).sum::<usize>(),
            "calls": turns.clone().map(|turn| turn.calls.len()).sum::<usize>(),
            "compactions": turns.filter(|turn| turn.compaction.is_some()).count(),
            "sessions": memory.sessions.len(),
        }])
    );
    let threads = memory.turns.iter().filter(|(_, turn)| turn.open.is_none());
    let threads: Vec<_> = threads
        .map(|(id, turn)| {
            let chain = memory.chain(Some(id));
            json!({
                "turn_id": id,
                "ancestry": value(&chain).to_string(),
                "total_tokens": memory.tokens(id),
                "depth": chain.len() - 1,
                "persona_id": "default",
                "thread_key": format!("{}/{id}", turn.session),
            })
        })
        .collect();
    prop_assert_eq!(rows("SELECT * FROM threads ORDER BY turn_id").await, value(&threads));
    let moves = memory.moves.iter();
    let moves: Vec<_> =
        moves.map(|(label, to)| json!({"session_label": label, "thread_id": to})).collect();
    prop_assert_eq!(
        rows("SELECT session_label, thread_id FROM session_history ORDER BY id").await,
        value(&moves)
    );
    // What is large stands once, is named, and is nothing else.
    let large = memory.turns.values().flat_map(|turn| &turn.messages);
    let large = large.filter(|message| message.content().len() > 65_536).count();
    prop_assert_eq!(
        rows(
            "SELECT (SELECT count(*) FROM blobs) AS blobs,
               (SELECT count(*) FROM blob_references WHERE message_id IS NOT NULL) AS named,
               (SELECT count(*) FROM blob_references WHERE hash NOT IN (SELECT hash FROM blobs)) AS lost",
        )
        .await,
        json!([{ "blobs": usize::from(large > 0), "named": large, "lost": 0 }])
    );
    let core = fixture.ledger.core().unwrap();
    let check = core.readers.with(|connection| {
        let mut statement = connection.prepare("PRAGMA foreign_key_check").unwrap();
        Ok(statement.exists(()).unwrap())
    });
    prop_assert!(!check.unwrap(), "a reference finds no row");
    Ok(())
}
