//! The bound on the messages that a recall reads.

use super::*;
use model::{Recall, Recalled};

async fn recall(fixture: &Fixture, query: &str) -> Recalled {
    let request = Recall {
        session_label: "main".to_owned(),
        parent_turn_id: None,
        query: query.to_owned(),
        limit: 10,
    };
    fixture.ledger.recall(request).await.unwrap()
}

fn turns(recalled: &Recalled) -> Vec<&str> {
    recalled.messages.iter().map(|it| it.turn_id.as_str()).collect()
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
    let found = recall(&fixture, "content").await;
    assert!(found.partial && found.messages.is_empty());
    // Questions and answers are in the index, independent of their age.
    let found = recall(&fixture, "ask").await;
    assert_eq!(turns(&found), ["t2", "t1"]);
}
