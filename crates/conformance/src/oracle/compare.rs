//! Compares every read of the ledger with the model.
//!
//! It must never write.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::in_memory::Memory;
use crate::store::{Contents, Fixture, Thread};
use model::{AgentMessage, HistoryBase, Message, OpenTurn, Role, StorageErrorKind};

type Compared = Result<(), TestCaseError>;

fn value(of: &impl serde::Serialize) -> Value {
    serde_json::to_value(of).unwrap()
}

fn shown(messages: &[Message]) -> Value {
    value(&messages.iter().cloned().map(AgentMessage::from).collect::<Vec<_>>())
}

/// Compares all reads of all contents.
pub(super) async fn all(fixture: &Fixture, memory: &Memory) -> Compared {
    let labels: Vec<String> =
        (0..6).map(|n| format!("s{n}")).chain(["duplicate".to_owned()]).collect();
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
    let seen = memory.sessions.get(label);
    let head = seen.and_then(|session| session.head.clone());
    let row = ledger.read.session(label).await.unwrap();
    prop_assert_eq!(
        row.map(|row| (row.label, row.thread_id)),
        seen.map(|session| (label.to_owned(), session.head.clone()))
    );
    prop_assert_eq!(ledger.journal.head(label).await.unwrap(), memory.head(label));
    let messages = ledger.read.history(label).await.map_err(|error| error.kind);
    prop_assert_eq!(
        messages.map(|messages| value(&messages)),
        seen.map(|_| context_messages(memory, head.as_deref()))
            .ok_or(StorageErrorKind::UnknownSession)
    );
    // The caller may know no head, any turn, or an unknown id.
    let known = memory.turns.keys().map(|id| Some(id.as_str()));
    for known in known.chain([None, Some("nowhere")]) {
        let history = ledger.journal.history(label, None, known).await.unwrap();
        prop_assert_eq!((history.exists, &history.head), (seen.is_some(), &head));
        same_history(&history, memory, head.as_deref(), known)?;
    }
    Ok(())
}

/// The messages of the context at `head`, as a host reads them.
fn context_messages(memory: &Memory, head: Option<&str>) -> Value {
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

fn same_history(
    history: &model::SessionHistory,
    memory: &Memory,
    head: Option<&str>,
    known: Option<&str>,
) -> Compared {
    let (base, turns) = memory.new_turns(head, known);
    let facts: Vec<_> = history.turns.iter().map(|turn| (turn.id.clone(), turn.edited)).collect();
    prop_assert_eq!((history.base, facts), (base, turns));
    let first = history.turns.first().map(|turn| memory.turns[&turn.id].compaction.is_some());
    let summarised = base == HistoryBase::Root && first == Some(true);
    prop_assert_eq!(history.summarised, summarised);
    for turn in &history.turns {
        let expected = &memory.turns[&turn.id];
        prop_assert_eq!((turn.status, &turn.messages), (expected.status, &expected.messages));
    }
    Ok(())
}

async fn turn(fixture: &Fixture, memory: &Memory, id: &str) -> Compared {
    let ledger = &fixture.ledger;
    let expected = &memory.turns[id];
    let row = ledger.read.turn(id).await.unwrap().unwrap();
    prop_assert_eq!(
        (&row.parent_turn_id, row.status.as_str(), &row.session_label, row.depth, row.has_children),
        (
            &expected.parent,
            expected.status.as_str(),
            &expected.session,
            i64::try_from(memory.chain(Some(id)).len()).unwrap() - 1,
            memory.has_children(id),
        )
    );
    let kind = if expected.compaction.is_some() { "compaction" } else { "normal" };
    prop_assert_eq!((row.turn_type.as_str(), &row.compaction), (kind, &expected.compaction));
    prop_assert_eq!(value(&row.messages), shown(&expected.messages));
    let calls: Vec<_> = expected.calls.iter().map(|call| &call.row).collect();
    prop_assert_eq!(value(&row.tool_calls), value(&calls));
    let history =
        ledger.journal.history("elsewhere", Some(id), None).await.map_err(|error| error.kind);
    let messages = ledger.read.history(id).await.map_err(|error| error.kind);
    if expected.open.is_some() {
        // An open turn is read by its id, but is in no history.
        prop_assert_eq!(row.stop_reason, None);
        prop_assert_eq!(history.map(drop), Err(StorageErrorKind::UnknownTurn));
        prop_assert_eq!(messages.map(drop), Err(StorageErrorKind::UnknownSession));
    } else {
        prop_assert_eq!(row.thread_tokens, memory.tokens(id));
        same_history(&history.unwrap(), memory, Some(id), None)?;
        prop_assert_eq!(value(&messages.unwrap()), context_messages(memory, Some(id)));
    }
    Ok(())
}

async fn interrupted(fixture: &Fixture, memory: &Memory) -> Compared {
    let expected = memory.interrupted();
    let listed = fixture.ledger.journal.interrupted(None).await.unwrap();
    prop_assert_eq!(listed.iter().map(|turn| &turn.turn_id).collect::<Vec<_>>(), expected.clone());
    for turn in &listed {
        open_turn(turn, memory)?;
    }
    let expected: BTreeSet<_> = expected.into_iter().collect();
    for id in memory.turns.keys() {
        let found = fixture.ledger.journal.interrupted(Some(id)).await.unwrap();
        prop_assert_eq!(found.len(), usize::from(expected.contains(id)));
    }
    Ok(())
}

/// A search finds the texts of users and assistants in ended turns only.
async fn search(fixture: &Fixture, memory: &Memory) -> Compared {
    for word in ["ask", "done", "hm", "content"] {
        let options = serde_json::from_value(json!({ "limit": 1_000 })).unwrap();
        let page = fixture.ledger.read.search(word.to_owned(), options).await.unwrap();
        let mut found: Vec<_> =
            page.items.into_iter().map(|hit| (hit.turn_id, hit.message_id)).collect();
        found.sort();
        let ended = memory.turns.iter();
        let ended = ended.filter(|(_, turn)| turn.open.is_none() && turn.compaction.is_none());
        let expected = ended.flat_map(|(id, turn)| {
            let messages = turn.messages.iter().filter(|message| {
                message.role != Role::Tool
                    && message.content().split(|c: char| !c.is_alphanumeric()).any(|it| it == word)
            });
            messages.map(|message| (id.clone(), message.id.clone()))
        });
        let mut expected: Vec<_> = expected.collect();
        expected.sort();
        prop_assert_eq!(found, expected, "{}", word);
    }
    Ok(())
}

/// A running turn as recovery reads it.
pub(super) fn open_turn(turn: &OpenTurn, memory: &Memory) -> Compared {
    let expected = &memory.turns[&turn.turn_id];
    let open = expected.open.as_ref().unwrap();
    let head = memory.head(&expected.session);
    let moved = head != open.expected && !memory.rebased(head.as_deref(), open.expected.as_deref());
    prop_assert_eq!(
        (&turn.session_label, &turn.parent_turn_id, &turn.expected_head, turn.moved),
        (&expected.session, &expected.parent, &open.expected, moved)
    );
    prop_assert_eq!((turn.epoch, turn.progress.iterations), (open.epoch, open.iterations));
    prop_assert_eq!(&turn.messages, &expected.messages);
    let calls: Vec<_> =
        turn.calls.iter().map(|call| (value(&call.row), call.replay, call.begun)).collect();
    let expected_calls: Vec<_> =
        expected.calls.iter().map(|call| (value(&call.row), call.replay, call.begun)).collect();
    prop_assert_eq!(calls, expected_calls);
    Ok(())
}

/// Compares the contents of the tables.
async fn tables(fixture: &Fixture, memory: &Memory) -> Compared {
    let turns = memory.turns.values().filter(|turn| turn.open.is_none());
    let threads = memory.turns.iter().filter(|(_, turn)| turn.open.is_none());
    let threads = threads.map(|(id, turn)| Thread {
        turn_id: id.clone(),
        ancestry: memory.chain(Some(id)),
        total_tokens: memory.tokens(id),
        session_label: turn.session.clone(),
    });
    // A large value is stored once, with the first turn that has it, and each message that has it refers to it.
    let is_large = |message: &&Message| message.content().len() > 65_536;
    let all = memory.turns.values().flat_map(|turn| &turn.messages);
    let named = turns.clone().flat_map(|turn| &turn.messages);
    let expected = Contents {
        turns: turns.clone().count(),
        open: memory.turns.values().filter(|turn| turn.open.is_some()).count(),
        messages: turns.clone().map(|turn| turn.messages.len()).sum(),
        calls: turns.clone().map(|turn| turn.calls.len()).sum(),
        compactions: turns.filter(|turn| turn.compaction.is_some()).count(),
        sessions: memory.sessions.len(),
        threads: threads.collect(),
        moves: memory.moves.clone(),
        large_values: usize::from(all.filter(is_large).count() > 0),
        large_names: named.filter(is_large).count(),
    };
    prop_assert_eq!(fixture.store.contents().await, expected);
    Ok(())
}
