//! The rows of broken prompt caches.

use super::*;
use model::{CacheBreak, CacheBreakCause, CacheChange, CachePart, CacheStep, Role};

#[tokio::test]
async fn the_breaks_of_a_failed_turn_are_stored_with_all_their_facts() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let broken = CacheBreak {
        attempt: 2,
        cause: CacheBreakCause::Prefix,
        part: Some(CachePart::Message),
        change: Some(CacheChange::Reordered),
        name: None,
        index: Some(7),
        message_id: Some("m7".to_owned()),
        role: Some(Role::Tool),
        expected_tokens: 9_000,
        read_tokens: 1_000,
        tokens: 8_000,
        cost: Some(0.03),
        idle_ms: 12,
    };
    let mut failed = turn("t2", "main", Some("t1"));
    failed.move_pointer = false;
    let unexplained = CacheBreak {
        attempt: 3,
        cause: CacheBreakCause::Unexplained,
        part: None,
        change: None,
        index: None,
        message_id: None,
        role: None,
        cost: None,
        ..broken.clone()
    };
    let breaks = vec![broken, unexplained];
    failed.cache = Some(Box::new(CacheStep { chain: None, known: None, breaks }));
    fixture.commit(failed).await.unwrap();
    assert_eq!(
        fixture
            .rows(
                "SELECT turn_id, attempt, cause, part, change, name, position, message_id, role, expected_tokens,
                   read_tokens, tokens, cost, idle_ms
                 FROM cache_breaks ORDER BY attempt"
            )
            .await,
        r#"[{"turn_id":"t2","attempt":2,"cause":"prefix","part":"message","change":"reordered","name":null,"position":7,"message_id":"m7","role":"tool","expected_tokens":9000,"read_tokens":1000,"tokens":8000,"cost":0.03,"idle_ms":12},{"turn_id":"t2","attempt":3,"cause":"unexplained","part":null,"change":null,"name":null,"position":null,"message_id":null,"role":null,"expected_tokens":9000,"read_tokens":1000,"tokens":8000,"cost":null,"idle_ms":12}]"#
    );
}
