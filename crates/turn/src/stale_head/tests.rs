//! The table of every case, and chains of heads.

use proptest::prelude::*;

use super::{Ending, Landing, Rebase};
use model::OnStaleHead::{self, Beside, Refuse};

#[test]
fn a_turn_is_written_in_its_thread_beside_it_or_not_at_all() {
    let usual = Ending {
        head: Some("a"),
        expected: Some("a"),
        parent: Some("a"),
        moves: true,
        compacts: false,
        on_stale_head: Refuse,
    };
    let moved = Ending { head: Some("b"), ..usual };
    let elsewhere = Ending { parent: Some("z"), ..moved };
    let quiet = Ending { moves: false, ..moved };
    let first = Ending { head: None, expected: None, parent: None, ..usual };
    let compacting = Ending { moves: false, compacts: true, ..moved };
    let beside = |ending: Ending<'static>| Ending { on_stale_head: Beside, ..ending };
    for (name, ending, plain, compacted) in [
        ("nothing moved", usual, Landing::InThread(Some("a")), Landing::InThread(Some("a"))),
        ("the first turn", first, Landing::InThread(None), Landing::InThread(None)),
        ("moved", moved, Landing::Refused, Landing::InThread(Some("b"))),
        ("moved, beside", beside(moved), Landing::Beside(Some("a")), Landing::InThread(Some("b"))),
        ("another parent", elsewhere, Landing::Refused, Landing::InThread(Some("z"))),
        (
            "another parent, beside",
            beside(elsewhere),
            Landing::Beside(Some("z")),
            Landing::InThread(Some("z")),
        ),
        // A turn that moves no pointer is never stale.
        ("quiet", quiet, Landing::InThread(Some("a")), Landing::InThread(Some("a"))),
        // A compaction moves the pointer, and cannot be beside the thread.
        ("compacting", compacting, Landing::Refused, Landing::InThread(Some("b"))),
        ("compacting, beside", beside(compacting), Landing::Refused, Landing::InThread(Some("b"))),
    ] {
        assert_eq!(ending.landing(false), plain, "{name}");
        assert_eq!(ending.landing(true), compacted, "{name}, compacted");
    }
}

/// The turns after the head that a run knew: `s` a compaction, `t` a turn. The first entry follows `expected`.
fn rebased(since: &str, expected: Option<&str>) -> (bool, usize) {
    let kinds: Vec<char> = since.chars().collect();
    let head = kinds.len().checked_sub(1).map(|at| at.to_string());
    let mut rebase = Rebase::new(head.as_deref().or(expected), expected);
    let mut read = 0;
    while let Some(id) = rebase.wanted() {
        read += 1;
        match id.parse::<usize>() {
            Ok(at) => {
                let parent = at.checked_sub(1).map(|at| at.to_string());
                let parent = parent.or_else(|| expected.map(ToOwned::to_owned));
                rebase.turn(kinds[at] == 's', parent);
            }
            Err(_) => rebase.turn(false, None),
        }
    }
    (rebase.is_compacted(), read)
}

#[test]
fn only_compactions_may_come_between() {
    for (since, answer) in
        [("s", true), ("ss", true), ("sss", true), ("t", false), ("st", false), ("ts", false)]
    {
        assert_eq!(rebased(since, Some("known")).0, answer, "{since}");
    }
    assert!(!rebased("", Some("known")).0);
    let gone = Rebase::new(None, Some("known"));
    assert_eq!((gone.wanted(), gone.is_compacted()), (None, false));
}

proptest! {
    #[test]
    fn a_rebase_is_a_chain_of_compactions_and_is_read_once(since in "[st]{1,12}") {
        let (compacted, read) = rebased(&since, Some("known"));
        prop_assert_eq!(compacted, !since.contains('t'));
        prop_assert!(read <= since.len());
    }

    /// In any case: a turn that moves the pointer follows the session's head, or is reported as stale.
    #[test]
    fn no_turn_moves_a_session_over_an_unknown_turn(
        head in "[ab]?", expected in "[ab]?", parent in "[abz]?", moves: bool, compacts: bool, beside: bool, compacted: bool,
    ) {
        let some = |text: &'_ str| (!text.is_empty()).then(|| text.to_owned());
        let (head, expected, parent) = (some(&head), some(&expected), some(&parent));
        let on_stale_head = if beside { OnStaleHead::Beside } else { OnStaleHead::Refuse };
        let ending = Ending {
            head: head.as_deref(), expected: expected.as_deref(), parent: parent.as_deref(),
            moves, compacts, on_stale_head,
        };
        match ending.landing(compacted) {
            Landing::InThread(_) => prop_assert!(!(moves || compacts) || head == expected || compacted),
            Landing::Beside(_) => prop_assert!(beside && !compacts && !compacted && head != expected),
            Landing::Refused => prop_assert!(head != expected && !compacted),
        }
    }
}
