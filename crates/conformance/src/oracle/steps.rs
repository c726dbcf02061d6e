//! The steps of a random sequence, and their frequencies.
//!
//! It must never know the contents of the store: a number selects one of the existing items.

use proptest::prelude::*;

use model::{OnStaleHead, TurnStatus};

/// One step. Its numbers are taken modulo the number of existing items.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A turn that is written at once and expects the session's head, or with `off` another turn.
    Commit {
        at: Position,
        ends: Ends,
        compacts: Option<usize>,
    },
    /// A turn that a broker writes, after the head or after the turn that it names.
    WriteTurn {
        session: usize,
        parent: Option<usize>,
    },
    /// A turn with an id that exists.
    Duplicate {
        turn: usize,
    },
    /// W0.
    Begin {
        at: Position,
    },
    /// W1, W2 or W3: the next one, or the last one repeated.
    Record {
        run: usize,
        repeats: bool,
    },
    /// W4.
    End {
        run: usize,
        ends: Ends,
    },
    /// A compaction of a running turn, or between turns.
    Compact {
        run: Option<usize>,
        session: usize,
        cut: usize,
    },
    Uncompact {
        session: usize,
    },
    Fork {
        turn: usize,
        label: usize,
    },
    /// A host's move of a session's pointer, from the head or, with `off`, from another turn.
    Move {
        turn: usize,
        label: usize,
        off: Option<usize>,
    },
    /// A run that ends without its W4.
    Release {
        run: usize,
    },
    /// The take-over of an interrupted turn, or the attempt on another one.
    Reopen {
        turn: usize,
    },
    /// A slice of the search index.
    Index,
    /// The process ends and the next one begins.
    Close,
    /// The process is killed between two steps.
    Crash,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) session: usize,
    /// The turn expects another head than the session's.
    pub(super) off: Option<usize>,
    /// The turn follows another turn than the expected head.
    pub(super) beside: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) status: TurnStatus,
    pub(super) moves: bool,
    pub(super) on_stale_head: OnStaleHead,
}

/// A value in 15 % of the cases.
fn seldom() -> impl Strategy<Value = Option<usize>> {
    prop::option::weighted(0.15, any::<usize>())
}

fn position() -> impl Strategy<Value = Position> {
    (0..2_usize, seldom(), seldom()).prop_map(|(session, off, beside)| Position {
        session,
        off,
        beside,
    })
}

fn ends() -> impl Strategy<Value = Ends> {
    let status = prop_oneof![
        3 => Just(TurnStatus::Completed),
        1 => Just(TurnStatus::Aborted),
        1 => Just(TurnStatus::Failed),
    ];
    let stale = prop_oneof![Just(OnStaleHead::Refuse), Just(OnStaleHead::Beside)];
    (status, prop::bool::weighted(0.8), stale).prop_map(|(status, moves, on_stale_head)| Ends {
        status,
        moves,
        on_stale_head,
    })
}

pub(super) fn any_step() -> impl Strategy<Value = Step> {
    let any = any::<usize>;
    prop_oneof![
        4 => (position(), ends(), seldom()).prop_map(|(at, ends, compacts)| Step::Commit { at, ends, compacts }),
        1 => (0..2_usize, seldom()).prop_map(|(session, parent)| Step::WriteTurn { session, parent }),
        1 => any().prop_map(|turn| Step::Duplicate { turn }),
        6 => position().prop_map(|at| Step::Begin { at }),
        8 => (any(), prop::bool::weighted(0.2)).prop_map(|(run, repeats)| Step::Record { run, repeats }),
        5 => (any(), ends()).prop_map(|(run, ends)| Step::End { run, ends }),
        6 => (prop::option::of(any()), 0..2_usize, any())
            .prop_map(|(run, session, cut)| Step::Compact { run, session, cut }),
        2 => (0..2_usize).prop_map(|session| Step::Uncompact { session }),
        2 => (any(), 0..6_usize).prop_map(|(turn, label)| Step::Fork { turn, label }),
        3 => (any(), 0..6_usize, seldom()).prop_map(|(turn, label, off)| Step::Move { turn, label, off }),
        1 => any().prop_map(|run| Step::Release { run }),
        3 => any().prop_map(|turn| Step::Reopen { turn }),
        2 => Just(Step::Index),
        1 => Just(Step::Close),
        2 => Just(Step::Crash),
    ]
}
