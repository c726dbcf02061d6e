//! The chain of a session's calls: read back as it was written, whatever it grew from, and never half.

use std::sync::Arc;

use super::*;
use model::{CacheBreak, CacheBreakCause, CacheChain, CacheChange, CachePart, CacheStep, Role};

fn chain(turn_id: &str, links: usize, seed: u64) -> CacheChain {
    CacheChain {
        turn_id: turn_id.to_owned(),
        who: u64::MAX,
        way: 2,
        base: 1 << 63,
        called_at: NOW,
        system: 3,
        settings: [u64::MAX - 1, 4],
        tools: Arc::from([("a \"tool\"".to_owned(), u64::MAX), ("b".to_owned(), 0)]),
        links: (0..links).map(|n| n as u64 * 3 + u64::MAX / 2 + seed).collect(),
        comparable: links / 2,
        tokens: [10, 20, 30],
        reported: true,
    }
}

fn with(turn: TurnEnd, chain: &CacheChain, known: Option<(&str, usize)>) -> TurnEnd {
    let step = CacheStep {
        chain: Some(Arc::new(chain.clone())),
        known: known.map(|(turn, same)| (turn.to_owned(), same)),
        breaks: Vec::new(),
    };
    TurnEnd { cache: Some(Box::new(step)), ..turn }
}

#[tokio::test]
async fn a_chain_is_read_back_as_it_grew_shrank_and_was_replaced() {
    let fixture = Fixture::new();
    assert_eq!(fixture.ledger.cache_chain("main").await.unwrap(), None);
    let mut parent: Option<String> = None;
    // Its length at each turn, and how much of the one before it repeats.
    let lengths = [1usize, 127, 128, 129, 400, 401, 256, 255, 700, 0, 3];
    let mut before: Option<CacheChain> = None;
    for (n, length) in lengths.into_iter().enumerate() {
        let id = format!("t{n}");
        // Every third one is another conversation altogether.
        let now = chain(&id, length, (n / 3) as u64);
        let same = before
            .as_ref()
            .map(|before| before.links.iter().zip(&now.links).take_while(|(a, b)| a == b).count());
        let known = before.as_ref().map(|before| before.turn_id.as_str()).zip(same);
        let commit = with(turn(&id, "main", parent.as_deref()), &now, known);
        fixture.commit(commit).await.unwrap();
        let read = fixture.ledger.cache_chain("main").await.unwrap();
        assert_eq!(read.as_deref(), Some(&now));
        (parent, before) = (Some(id), Some(now));
    }
    // Whoever thinks that another's chain stands there writes all of it.
    let whole = chain("t11", 300, 9);
    let commit = with(turn("t11", "main", parent.as_deref()), &whole, Some(("t2", 300)));
    fixture.commit(commit).await.unwrap();
    assert_eq!(fixture.ledger.cache_chain("main").await.unwrap().as_deref(), Some(&whole));
    assert_eq!(fixture.ledger.cache_chain("other").await.unwrap(), None);
}

#[tokio::test]
async fn a_turn_that_moves_no_pointer_leaves_the_chain_and_its_breaks_are_kept() {
    let fixture = Fixture::new();
    let first = chain("t1", 5, 0);
    fixture.commit(with(turn("t1", "main", None), &first, None)).await.unwrap();
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
    let mut failed = with(turn("t2", "main", Some("t1")), &chain("t2", 9, 1), Some(("t1", 0)));
    failed.move_pointer = false;
    if let Some(step) = &mut failed.cache {
        step.breaks = vec![
            broken.clone(),
            CacheBreak {
                attempt: 3,
                cause: CacheBreakCause::Unexplained,
                part: None,
                change: None,
                index: None,
                message_id: None,
                role: None,
                cost: None,
                ..broken
            },
        ];
    }
    fixture.commit(failed).await.unwrap();
    assert_eq!(fixture.ledger.cache_chain("main").await.unwrap().as_deref(), Some(&first));
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
