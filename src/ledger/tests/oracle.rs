//! Random commits, forks and reads against a small model in memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use proptest::prelude::*;

use super::*;
use crate::model::StorageErrorKind;

/// One thing a host does. Numbers are taken modulo what there is.
#[derive(Debug, Clone)]
enum Step {
    /// A turn of a session, from its head (or a stale one), moving the pointer or not.
    Commit { session: usize, stale: bool, moves: bool },
    /// A session from any turn, with a label that may be taken.
    Fork { turn: usize, label: usize },
    /// A turn id again.
    Again { turn: usize },
    /// Close and open.
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4_usize, prop::bool::weighted(0.15), prop::bool::weighted(0.8))
            .prop_map(|(session, stale, moves)| Step::Commit { session, stale, moves }),
        2 => (any::<usize>(), 0..6_usize).prop_map(|(turn, label)| Step::Fork { turn, label }),
        1 => any::<usize>().prop_map(|turn| Step::Again { turn }),
        1 => Just(Step::Reopen),
    ]
}

/// What the ledger should hold.
#[derive(Default)]
struct Oracle {
    /// Each turn's parent, by the turn's number.
    turns: Vec<Option<usize>>,
    heads: BTreeMap<String, Option<usize>>,
    moves: usize,
}

impl Oracle {
    fn chain(&self, head: Option<usize>) -> Vec<String> {
        let mut chain = Vec::new();
        let mut at = head;
        while let Some(turn) = at {
            chain.push(format!("t{turn}"));
            at = self.turns[turn];
        }
        chain.reverse();
        chain
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn the_ledger_agrees_with_a_model_in_memory(steps in prop::collection::vec(step(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(replay(steps))?;
    }
}

async fn replay(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut ledger = open(&path).unwrap();
    let mut oracle = Oracle::default();
    for step in steps {
        match step {
            Step::Commit { session, stale, moves } => {
                let label = format!("s{session}");
                let head = oracle.heads.get(&label).copied().flatten();
                let id = format!("t{}", oracle.turns.len());
                let parent = head.map(|head| format!("t{head}"));
                let mut commit = turn(&id, &label, parent.as_deref());
                commit.move_pointer = moves;
                if stale {
                    commit.expected_head = Some("somewhere else".to_owned());
                }
                let result = ledger.commit(Box::new(commit)).await;
                if stale && moves {
                    prop_assert_eq!(result.unwrap_err().kind, StorageErrorKind::StaleHead);
                    continue;
                }
                oracle.turns.push(head);
                let entry = oracle.heads.entry(label).or_default();
                if moves {
                    *entry = Some(oracle.turns.len() - 1);
                    oracle.moves += 1;
                }
                prop_assert_eq!(result.unwrap().head, entry.map(|head| format!("t{head}")));
            }
            Step::Fork { turn, label } => {
                let label = format!("s{label}");
                if oracle.turns.is_empty() {
                    let error = ledger.fork("t0", Some(&label)).await.unwrap_err();
                    prop_assert_eq!(error.kind, StorageErrorKind::UnknownTurn);
                    continue;
                }
                let turn = turn % oracle.turns.len();
                let result = ledger.fork(&format!("t{turn}"), Some(&label)).await;
                if let Entry::Vacant(free) = oracle.heads.entry(label) {
                    prop_assert_eq!(result.unwrap().thread_id, Some(format!("t{turn}")));
                    free.insert(Some(turn));
                    oracle.moves += 1;
                } else {
                    prop_assert_eq!(result.unwrap_err().kind, StorageErrorKind::Constraint);
                }
            }
            Step::Again { turn: again } if !oracle.turns.is_empty() => {
                let id = format!("t{}", again % oracle.turns.len());
                let error = ledger.commit(Box::new(turn(&id, "again", None))).await.unwrap_err();
                prop_assert_eq!(error.kind, StorageErrorKind::Constraint);
            }
            Step::Again { .. } => {}
            Step::Reopen => {
                ledger.close().await.unwrap();
                ledger = open(&path).unwrap();
            }
        }
    }
    for (label, head) in &oracle.heads {
        let history = ledger.history(label, None, None).await.unwrap();
        let ids: Vec<_> = history.turns.into_iter().map(|turn| turn.id).collect();
        prop_assert_eq!(ids, oracle.chain(*head));
    }
    let fixture = Fixture { ledger, folder };
    prop_assert_eq!(
        fixture.counts().await,
        format!(
            r#"[{{"turns":{turns},"messages":{},"calls":{turns},"sessions":{},"moves":{}}}]"#,
            oracle.turns.len() * 4,
            oracle.heads.len(),
            oracle.moves,
            turns = oracle.turns.len(),
        )
    );
    for turn in 0..oracle.turns.len() {
        let row = fixture.ledger.turn(&format!("t{turn}")).await.unwrap().unwrap();
        prop_assert_eq!(row.has_children, oracle.turns.contains(&Some(turn)));
        prop_assert_eq!(row.depth + 1, i64::try_from(oracle.chain(Some(turn)).len()).unwrap());
        prop_assert_eq!(row.thread_tokens, 127 * (row.depth + 1));
    }
    Ok(())
}
