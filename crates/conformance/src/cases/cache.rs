//! The cache chain of a session: it is read as it was written, from whichever earlier chain it was extended, and is never
//! partial.

use std::sync::Arc;

use crate::store::{Fixture, ProcessEnd};
use crate::turns::{NOW, turn};
use model::{CacheChain, CacheStep, TurnEnd};

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

/// `turn` with the chain that it leaves, and so many links of a known chain that repeat.
fn with(turn: TurnEnd, chain: &CacheChain, known: Option<(&str, usize)>) -> TurnEnd {
    let step = CacheStep {
        chain: Some(Arc::new(chain.clone())),
        known: known.map(|(turn, same)| (turn.to_owned(), same)),
        breaks: Vec::new(),
    };
    TurnEnd { cache: Some(Box::new(step)), ..turn }
}

async fn stored(fixture: &Fixture, label: &str) -> Option<CacheChain> {
    fixture.ledger.journal.cache_chain(label).await.unwrap().map(|chain| *chain)
}

/// A case.
pub async fn a_chain_is_read_back_as_it_grew_shrank_and_was_replaced(mut fixture: Fixture) {
    assert_eq!(stored(&fixture, "main").await, None);
    let mut parent: Option<String> = None;
    // Its length at each turn, and how much of the one before it repeats.
    let lengths = [1_usize, 127, 128, 129, 400, 401, 256, 255, 700, 0, 3];
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
        assert_eq!(stored(&fixture, "main").await.as_ref(), Some(&now));
        (parent, before) = (Some(id), Some(now));
    }
    // A writer that knows another chain than the stored one writes all of its own.
    let whole = chain("t11", 300, 9);
    let commit = with(turn("t11", "main", parent.as_deref()), &whole, Some(("t2", 300)));
    fixture.commit(commit).await.unwrap();
    fixture.next_process(ProcessEnd::Killed).await;
    assert_eq!(stored(&fixture, "main").await, Some(whole));
    assert_eq!(stored(&fixture, "other").await, None);
}

/// A case.
pub async fn a_turn_that_moves_no_pointer_leaves_the_chain(fixture: Fixture) {
    let first = chain("t1", 5, 0);
    fixture.commit(with(turn("t1", "main", None), &first, None)).await.unwrap();
    let mut failed = with(turn("t2", "main", Some("t1")), &chain("t2", 9, 1), Some(("t1", 0)));
    failed.move_pointer = false;
    fixture.commit(failed).await.unwrap();
    assert_eq!(stored(&fixture, "main").await, Some(first));
}
