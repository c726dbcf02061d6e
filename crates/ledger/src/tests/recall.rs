//! Recall: what a context no longer contains is found in its own thread, before the first turn that the last compaction
//! retained.

use super::*;
use model::{Recall, Recalled};

async fn recall(fixture: &Fixture, label: &str, query: &str, limit: usize) -> Recalled {
    let request = Recall {
        session_label: label.to_owned(),
        parent_turn_id: None,
        query: query.to_owned(),
        limit,
    };
    fixture.ledger.recall(request).await.unwrap()
}

/// `turn role[ tool]` for each message.
fn found(recalled: &Recalled) -> Vec<String> {
    let name = |it: &model::RecalledMessage| {
        let tool = it.tool_name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        format!("{} {}{tool}", it.turn_id, it.role.as_str())
    };
    recalled.messages.iter().map(name).collect()
}

/// t1 … t3, then t4 after a compaction that retains t3.
async fn compacted() -> Fixture {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    fixture.commit(short_turn("t2", "main", Some("t1"))).await.unwrap();
    fixture.commit(short_turn("t3", "main", Some("t2"))).await.unwrap();
    let mut fourth = short_turn("t4", "main", Some("t3"));
    fourth.compaction = Some(compaction("t2", "t3"));
    fixture.commit(fourth).await.unwrap();
    fixture
}

#[tokio::test]
async fn messages_before_the_first_retained_turn_are_found_newest_first() {
    let fixture = compacted().await;
    let recalled = recall(&fixture, "main", "ask", 10).await;
    assert_eq!(found(&recalled), ["t2 user", "t1 user"]);
    assert_eq!(recalled.messages[1].excerpt, "ask t1");
    assert_eq!(recalled.messages[1].said_at, crate::rows::iso_time::format(NOW));
    assert_eq!(found(&recall(&fixture, "main", "ask", 1).await), ["t2 user"]);
    assert_eq!(found(&recall(&fixture, "main", "content of", 10).await), ["t1 tool read"]);
    // What is thought is nobody's to find, nor is the summary.
    for (query, loosely) in [("hm", true), ("t4", true), ("", false)] {
        let nothing = recall(&fixture, "main", query, 10).await;
        assert_eq!(nothing, Recalled { compacted: true, loosely, ..Recalled::default() });
    }
}

#[tokio::test]
async fn without_a_compaction_nothing_is_missing() {
    let fixture = Fixture::new();
    assert_eq!(recall(&fixture, "main", "ask", 10).await, Recalled::default());
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    assert_eq!(recall(&fixture, "main", "ask", 10).await, Recalled::default());
}

#[tokio::test]
async fn a_session_that_begins_at_a_turn_has_that_turns_thread() {
    let fixture = compacted().await;
    let request = |parent: &str| Recall {
        session_label: "new".to_owned(),
        parent_turn_id: Some(parent.to_owned()),
        query: "ask".to_owned(),
        limit: 10,
    };
    let recalled = fixture.ledger.recall(request("t4")).await.unwrap();
    assert_eq!(found(&recalled), ["t2 user", "t1 user"]);
    // Before the compaction, all of it is in the context.
    let recalled = fixture.ledger.recall(request("t3")).await.unwrap();
    assert_eq!(recalled, Recalled::default());
}

#[tokio::test]
async fn words_apart_come_by_how_many_of_them_a_message_holds() {
    let fixture = compacted().await;
    let recalled = recall(&fixture, "main", "ask of t1 content nothing", 10).await;
    assert!(recalled.loosely);
    assert_eq!(found(&recalled), ["t1 tool read", "t1 user", "t2 user", "t1 assistant"]);
}

#[tokio::test]
async fn results_are_read_up_to_a_bound_and_a_cut_is_reported() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let mut shown = short_turn("t2", "main", Some("t1"));
    let image = Block::Image { mime_type: "image/png".into(), data: "A".repeat(9 << 20) };
    shown.messages[0].blocks.push(image);
    fixture.commit(shown).await.unwrap();
    let mut third = short_turn("t3", "main", Some("t2"));
    third.compaction = Some(compaction("t2", "t3"));
    fixture.commit(third).await.unwrap();
    let recalled = recall(&fixture, "main", "content", 10).await;
    assert!(recalled.partial && recalled.messages.is_empty());
    // The messages of people and models are in the index, however far back.
    let recalled = recall(&fixture, "main", "ask", 10).await;
    assert_eq!(found(&recalled), ["t2 user", "t1 user"]);
}
