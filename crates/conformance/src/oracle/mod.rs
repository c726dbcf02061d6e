//! Compares the ledger with a model in memory: random sequences of all writes, by the journal and by the host, with crashes
//! in between; every read is compared.
//!
//! A backend's test passes the number of sequences (`LEDGER_CASES` for SQLite: `npm run proof:oracle`); the usual suite runs few. It must
//! never sleep.

mod compare;
mod in_memory;
mod replay;
mod steps;
mod tally;

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use replay::replay;
use steps::any_step;
use tally::Tally;

use crate::store::{Fixture, StoreFuture};

/// Sequences in the usual suite.
const CASES: u32 = 24;
const STEPS: std::ops::Range<usize> = 30..70;

/// The steps that every run of the proof must reach; `SELDOM` has those that need many sequences.
const REACHED: [&str; 12] = [
    "begin",
    "begin, busy",
    "commit",
    "compact",
    "compact in a run",
    "end",
    "fork",
    "record",
    "record, stale",
    "reopen",
    "uncompact",
    "write a turn",
];
const MANY: u32 = 200;
const SELDOM: [&str; 9] = [
    "move",
    "move to the head",
    "move, busy",
    "move, stale",
    "commit beside",
    "commit rebased",
    "commit with compaction",
    "end beside",
    "end rebased",
];

/// Runs `cases` sequences, or the usual number, each on a fresh store; `block_on` runs a future to completion.
///
/// # Panics
/// If the store and the model differ.
pub fn agrees_with_a_model_in_memory(
    cases: Option<u32>,
    fresh: impl Fn() -> Fixture,
    block_on: impl Fn(StoreFuture<'_, Result<(), TestCaseError>>) -> Result<(), TestCaseError>,
) {
    let cases = cases.unwrap_or(CASES);
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    };
    let tally = RefCell::new(Tally::new());
    let outcome = TestRunner::new(config).run(&prop::collection::vec(any_step(), STEPS), |steps| {
        block_on(Box::pin(replay(fresh(), steps, &tally)))
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let tally = tally.into_inner();
    eprintln!("{cases} sequences: {tally:?}");
    let wanted = REACHED.iter().chain(SELDOM.iter().filter(|_| cases >= MANY));
    let missed: Vec<_> = wanted.filter(|what| !tally.contains_key(**what)).collect();
    assert!(missed.is_empty(), "never reached: {missed:?}");
}
