//! Tables of threads, and random threads compared with the rule in its shortest form.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Context, ContextWalk, Cut, TurnLink, Wanted, messages_before};
use model::{Block, HistoryBase, Message, Role, TurnStatus};

/// A thread: each turn follows the previous one; `Some` is a compaction with the first kept and the last summarised turn.
type Thread = Vec<(String, Option<(String, String)>)>;

fn thread(text: &str) -> Thread {
    let turn = |word: &str| match word.split_once(':') {
        None => (word.to_owned(), None),
        Some((id, cut)) => {
            let (through, first) = cut.split_once('|').unwrap();
            (id.to_owned(), Some((first.to_owned(), through.to_owned())))
        }
    };
    text.split(' ').map(turn).collect()
}

/// Walks and counts the rows that were read.
fn walk(thread: &Thread, known: Option<&str>) -> (Context, usize) {
    let rows: BTreeMap<&str, usize> =
        thread.iter().enumerate().map(|(at, (id, _))| (id.as_str(), at)).collect();
    let mut walk = ContextWalk::new(&thread.last().unwrap().0, known);
    let mut read = 0;
    while let Some(wanted) = walk.wanted() {
        read += 1;
        match wanted {
            Wanted::Turn(id) => {
                let at = rows[id];
                let parent = at.checked_sub(1).map(|at| thread[at].0.clone());
                let compaction = thread[at].1.is_some();
                let id = id.to_owned();
                walk.turn(TurnLink { id, parent, status: TurnStatus::Completed, compaction });
            }
            Wanted::Cut(id) => {
                let (first_kept, summarized_through) = thread[rows[id]].1.clone().unwrap();
                walk.cut(Cut { first_kept, summarized_through });
            }
        }
    }
    (walk.finish(), read)
}

/// The turns as text: `*` for a kept one, `<c` for one that follows the compaction `c`.
fn shown(context: &Context) -> String {
    let word = |turn: &super::ContextTurn| {
        let kept = if turn.edited { "*" } else { "" };
        let follows = turn.follows.as_ref().map(|it| format!("<{it}")).unwrap_or_default();
        format!("{}{kept}{follows}", turn.id)
    };
    context.turns.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_context_is_the_thread_back_to_the_first_turn_that_the_last_compaction_kept() {
    for (text, known, expected, left_out, read) in [
        // Without a compaction it is the whole thread.
        ("a b c", None, "a b c", None, 3),
        ("a b c", Some("c"), "", None, 0),
        ("a b c", Some("a"), "b c", None, 2),
        ("a b c", Some("elsewhere"), "a b c", None, 3),
        // The summary is first, then the turns it kept, then the later ones.
        ("a b c s:a|b d", None, "s b* c* d<s", Some("a"), 5),
        ("a b c s:b|c", None, "s c*", Some("b"), 3),
        // No turn before the compaction was kept.
        ("a b s:b|c c", None, "s c<s", Some("b"), 3),
        // Older summaries are in the newest one.
        ("a b s:a|b c u:a|b d", None, "u b* c* d<u", Some("a"), 6),
        ("a b s:a|b c u:b|c d", None, "u c* d<u", Some("s"), 4),
        // A known head after the compaction ends the walk; one that the compaction kept does not.
        ("a b s:a|b c d", Some("c"), "d", None, 1),
        ("a b s:a|b c d", Some("s"), "c d", None, 2),
        ("a b s:a|b c d", Some("b"), "s b* c<s d", Some("a"), 5),
        // Every turn was kept.
        ("a b s:z|a c", None, "s a* b* c<s", None, 5),
    ] {
        let thread = thread(text);
        let (context, rows) = walk(&thread, known);
        assert_eq!(
            (shown(&context).as_str(), context.left_out.as_deref()),
            (expected, left_out),
            "{text} {known:?}"
        );
        let on_known = known.is_some_and(|known| {
            !expected.contains(known) && thread.iter().any(|(id, _)| id == known)
        });
        assert_eq!(context.base == HistoryBase::Known, on_known, "{text} {known:?}");
        assert_eq!(rows, read, "{text} {known:?}: rows that were read");
    }
}

#[test]
fn an_unfinished_walk_has_the_parent_of_its_compaction() {
    let mut walk = ContextWalk::new("s", None);
    assert_eq!(walk.before_compaction(), None);
    let (id, parent) = ("s".to_owned(), Some("b".to_owned()));
    walk.turn(TurnLink { id, parent, status: TurnStatus::Completed, compaction: true });
    assert_eq!((walk.wanted(), walk.before_compaction()), (Some(Wanted::Cut("s")), Some("b")));
}

fn message(id: &str, role: Role) -> Message {
    Message {
        id: id.to_owned(),
        role,
        blocks: vec![Block::text("x")],
        sequence: 0,
        created_at: 0,
        provenance: None,
        provider_stop_reason: None,
    }
}

#[test]
fn the_ids_of_answers_decide_which_messages_are_before_a_compaction() {
    let turn = [
        message("q", Role::User),
        message("01", Role::Assistant),
        message("t", Role::Tool),
        message("05", Role::Assistant),
        message("u", Role::Tool),
    ];
    for (compaction, expected) in [("00", 0), ("03", 3), ("09", 5), ("0000000", 0)] {
        assert_eq!(messages_before(&turn, compaction), expected, "{compaction}");
    }
}

/// The rule in its shortest form: docs/rules/compaction.md#context-rule.
fn by_the_rule(thread: &Thread) -> Vec<(String, bool)> {
    let Some(at) = thread.iter().rposition(|(_, cut)| cut.is_some()) else {
        return thread.iter().map(|(id, _)| (id.clone(), false)).collect();
    };
    let (first, through) = thread[at].1.clone().unwrap();
    let before = &thread[..at];
    let index = |wanted: &str| before.iter().position(|(id, _)| id == wanted);
    let from = index(&first).unwrap_or_else(|| index(&through).map_or(at, |at| at + 1));
    let mut context = vec![(thread[at].0.clone(), false)];
    let kept = before[from..].iter().filter(|(_, cut)| cut.is_none());
    context.extend(kept.map(|(id, _)| (id.clone(), true)));
    context.extend(thread[at + 1..].iter().map(|(id, _)| (id.clone(), false)));
    context
}

prop_compose! {
    /// A thread with compactions that cut between two adjacent earlier turns.
    fn any_thread()(steps in proptest::collection::vec(proptest::option::weighted(0.3, any::<usize>()), 1..24)) -> Thread {
        let mut thread: Thread = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let id = format!("t{number:02}");
            let turns: Vec<String> = by_the_rule(&thread)
                .into_iter()
                .map(|(id, _)| id)
                .filter(|id| thread.iter().any(|(it, cut)| it == id && cut.is_none()))
                .chain([format!("t{:02}", number + 1)])
                .collect();
            let cut = step.filter(|_| turns.len() > 1).map(|step| {
                let at = step % (turns.len() - 1);
                (turns[at + 1].clone(), turns[at].clone())
            });
            thread.push((id, cut));
        }
        thread
    }
}

proptest! {
    #[test]
    fn a_walk_follows_the_rule_and_reads_each_row_once(thread in any_thread()) {
        let (context, read) = walk(&thread, None);
        let turns: Vec<_> = context.turns.iter().map(|turn| (turn.id.clone(), turn.edited)).collect();
        prop_assert_eq!(turns, by_the_rule(&thread));
        prop_assert!(read <= thread.len() + 1);
        let summaries = context.turns.iter().filter(|turn| turn.compaction).count();
        prop_assert_eq!(summaries, usize::from(thread.iter().any(|(_, cut)| cut.is_some())));
    }

    /// A caller with a head that is still in the thread gets the rest, and both together are the whole.
    #[test]
    fn known_turns_and_new_turns_are_the_whole_context(thread in any_thread(), at in any::<prop::sample::Index>()) {
        let known = thread[at.index(thread.len())].0.clone();
        let whole = walk(&thread, None).0;
        let new = walk(&thread, Some(&known)).0;
        match new.base {
            HistoryBase::Root => prop_assert_eq!(new, whole),
            HistoryBase::Known => {
                let later: Vec<_> = thread.iter().map(|(id, _)| id).skip_while(|id| **id != known).skip(1).collect();
                prop_assert_eq!(new.turns.iter().map(|turn| &turn.id).collect::<Vec<_>>(), later);
            }
        }
    }
}
