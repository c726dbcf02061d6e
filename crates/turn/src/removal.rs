//! Which turns may be deleted: a turn remains while a turn that follows it remains (docs/rules/sessions-and-ledger.md#deletion).
//!
//! Pure: the ledger says what is requested and what is needed. It must never select a turn without all that follow it.

use std::collections::HashMap;

/// A turn whose deletion is requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    /// Its number.
    pub n: i64,
    /// The number of its ancestors.
    pub depth: i64,
    /// The turn that it follows.
    pub parent: Option<i64>,
    /// The first turn that its compaction retains, where it is one and that turn exists.
    pub retains: Option<i64>,
    /// Whether it remains anyway: a session points at it, or a turn follows it whose deletion is not requested.
    pub needed: bool,
}

/// The requested turns that may be deleted, those that follow others first. A needed turn remains, with every turn that it
/// follows, and with the turn that its compaction retains.
#[must_use]
pub fn removable(requested: &[Requested]) -> Vec<i64> {
    let mut places: HashMap<i64, usize> =
        requested.iter().zip(0..).map(|(turn, at)| (turn.n, at)).collect();
    let mut needed: Vec<usize> =
        (0..).zip(requested).filter(|(_, turn)| turn.needed).map(|(at, _)| at).collect();
    while let Some(turn) = needed.pop().and_then(|at| requested.get(at)) {
        if places.remove(&turn.n).is_some() {
            let others = [turn.parent, turn.retains].into_iter().flatten();
            needed.extend(others.filter_map(|other| places.get(&other)));
        }
    }
    let mut free: Vec<&Requested> =
        places.into_values().filter_map(|at| requested.get(at)).collect();
    free.sort_unstable_by_key(|turn| std::cmp::Reverse((turn.depth, turn.n)));
    free.into_iter().map(|turn| turn.n).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{Requested, removable};

    fn turn(n: i64, parent: Option<i64>, needed: bool) -> Requested {
        Requested { n, depth: parent.map_or(0, |parent| parent + 1), parent, retains: None, needed }
    }

    #[test]
    fn what_follows_is_deleted_first_and_what_is_needed_remains_with_its_ancestors() {
        let thread = |needed: i64| -> Vec<Requested> {
            (0..4).map(|n| turn(n, (n > 0).then(|| n - 1), n == needed)).collect()
        };
        assert_eq!(removable(&thread(9)), [3, 2, 1, 0]);
        assert_eq!(removable(&thread(1)), [3, 2]);
        assert_eq!(removable(&thread(3)), [0; 0]);
    }

    #[test]
    fn a_compaction_that_remains_needs_the_turn_that_it_retains() {
        let mut turns = vec![turn(0, None, false), turn(1, Some(0), true), turn(2, Some(1), false)];
        turns[1].retains = Some(2);
        assert_eq!(removable(&turns), [0; 0]);
        turns[1].needed = false;
        assert_eq!(removable(&turns), [2, 1, 0]);
    }

    proptest! {
        #[test]
        fn no_turn_loses_its_parent(parents in prop::collection::vec((any::<prop::sample::Index>(), any::<[bool; 3]>()), 1..60)) {
            // A tree whose turns are requested, or not, or needed.
            let mut tree: Vec<(Option<usize>, bool, bool, i64)> = Vec::new();
            for (at, (index, [root, requested, needed])) in parents.iter().enumerate() {
                let parent = (at > 0 && !root).then(|| index.index(at));
                let depth = parent.map_or(0, |parent| tree[parent].3 + 1);
                tree.push((parent, *requested, *needed, depth));
            }
            let follows_unrequested =
                |at: usize| tree.iter().any(|(parent, requested, ..)| *parent == Some(at) && !requested);
            let list: Vec<Requested> = (0..tree.len()).filter(|at| tree[*at].1).map(|at| Requested {
                n: i64::try_from(at).unwrap(),
                depth: tree[at].3,
                parent: tree[at].0.map(|parent| i64::try_from(parent).unwrap()),
                retains: None,
                needed: tree[at].2 || follows_unrequested(at),
            }).collect();
            let removed = removable(&list);
            let gone: BTreeSet<i64> = removed.iter().copied().collect();
            // No turn that remains, or that is deleted later, follows one that is gone.
            let mut so_far = BTreeSet::new();
            for n in &removed {
                so_far.insert(*n);
                for (at, (parent, ..)) in tree.iter().enumerate() {
                    let (at, parent) = (i64::try_from(at).unwrap(), parent.map(|parent| i64::try_from(parent).unwrap()));
                    prop_assert!(parent != Some(*n) || so_far.contains(&at));
                }
            }
            // Every other requested turn is needed, or followed by a turn that remains.
            for turn in &list {
                let remains = |at: usize| !gone.contains(&i64::try_from(at).unwrap());
                let followed = tree.iter().enumerate().any(|(at, (parent, ..))| {
                    parent.is_some_and(|parent| i64::try_from(parent).unwrap() == turn.n) && remains(at)
                });
                prop_assert_eq!(gone.contains(&turn.n), !turn.needed && !followed);
            }
        }
    }
}
