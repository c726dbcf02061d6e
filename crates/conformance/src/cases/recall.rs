//! Recall: messages that a compaction removed from the context are found in the thread of the session.

use crate::store::Fixture;
use crate::turns::{compaction, short_turn, turn};
use model::{Recall, Recalled};

async fn recall(fixture: &Fixture, label: &str, query: &str, limit: usize) -> Recalled {
    let asked = Recall {
        session_label: label.to_owned(),
        parent_turn_id: None,
        query: query.to_owned(),
        limit,
    };
    fixture.ledger.journal.recall(asked).await.unwrap()
}

/// `turn role[ tool]` for each message.
fn found(recalled: &Recalled) -> Vec<String> {
    let name = |it: &model::RecalledMessage| {
        let tool = it.tool_name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        format!("{} {}{tool}", it.turn_id, it.role.as_str())
    };
    recalled.messages.iter().map(name).collect()
}

/// t1 … t3, then t4 after a compaction that keeps t3.
async fn compact(fixture: &Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    fixture.commit(short_turn("t2", "main", Some("t1"))).await.unwrap();
    fixture.commit(short_turn("t3", "main", Some("t2"))).await.unwrap();
    let mut fourth = short_turn("t4", "main", Some("t3"));
    fourth.compaction = Some(compaction("t2", "t3"));
    fixture.commit(fourth).await.unwrap();
}

/// A case.
pub async fn what_precedes_the_first_kept_turn_is_found_newest_first(fixture: Fixture) {
    compact(&fixture).await;
    let asked = recall(&fixture, "main", "ask", 10).await;
    assert_eq!(found(&asked), ["t2 user", "t1 user"]);
    assert_eq!(asked.messages[1].excerpt, "ask t1");
    assert_eq!(asked.messages[1].said_at, "2026-05-28T20:26:40.000Z");
    assert_eq!(found(&recall(&fixture, "main", "ask", 1).await), ["t2 user"]);
    assert_eq!(found(&recall(&fixture, "main", "content of", 10).await), ["t1 tool read"]);
    // Thinking is not searched, nor is the summary.
    for (query, loosely) in [("hm", true), ("t4", true), ("", false)] {
        let nothing = recall(&fixture, "main", query, 10).await;
        assert_eq!(nothing, Recalled { compacted: true, loosely, ..Recalled::default() });
    }
}

/// A case.
pub async fn without_a_compaction_nothing_is_missing(fixture: Fixture) {
    assert_eq!(recall(&fixture, "main", "ask", 10).await, Recalled::default());
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    assert_eq!(recall(&fixture, "main", "ask", 10).await, Recalled::default());
}

/// A case.
pub async fn a_session_that_begins_at_a_turn_has_that_turns_thread(fixture: Fixture) {
    compact(&fixture).await;
    let asked = |parent: &str| Recall {
        session_label: "new".to_owned(),
        parent_turn_id: Some(parent.to_owned()),
        query: "ask".to_owned(),
        limit: 10,
    };
    let journal = &fixture.ledger.journal;
    assert_eq!(found(&journal.recall(asked("t4")).await.unwrap()), ["t2 user", "t1 user"]);
    // Before the compaction, all of it is in the context.
    assert_eq!(journal.recall(asked("t3")).await.unwrap(), Recalled::default());
}

/// A case.
pub async fn another_sessions_thread_is_not_searched(fixture: Fixture) {
    compact(&fixture).await;
    fixture.commit(short_turn("o1", "other", None)).await.unwrap();
    let mut second = short_turn("o2", "other", Some("o1"));
    second.compaction = Some(compaction("o1", "o2"));
    fixture.commit(second).await.unwrap();
    assert_eq!(found(&recall(&fixture, "other", "ask", 10).await), ["o1 user"]);
    assert_eq!(found(&recall(&fixture, "main", "ask", 10).await), ["t2 user", "t1 user"]);
}

/// A case.
pub async fn words_apart_come_by_how_many_of_them_a_message_holds(fixture: Fixture) {
    compact(&fixture).await;
    let recalled = recall(&fixture, "main", "ask of t1 content nothing", 10).await;
    assert!(recalled.loosely);
    assert_eq!(found(&recalled), ["t1 tool read", "t1 user", "t2 user", "t1 assistant"]);
}
