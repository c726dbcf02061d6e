//! A pattern as a lazily built automaton: a long text costs one step for many bytes, if the pattern allows it.
//!
//! It must never continue beyond its limits: it gives up, and the caller's other engines decide.

use std::sync::OnceLock;

use regex_automata::Input;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson;

use super::program::MAX_BYTES;

/// The maximum bytes of cached states: few enough that building all of them is bounded work.
const CACHE: usize = 256 * 1024;
/// How often the states may be dropped before the automaton gives up.
const CLEARS: usize = 2;
/// The bytes for which a state must be used, once states were dropped.
const BYTES_PER_STATE: usize = 64;
/// The longest program, in instructions: each state may read all of them.
const LONGEST: u64 = 20_000;
/// Bytes per step, and steps for building the states.
const BYTES_PER_STEP: u64 = 16;
const BUILDING: u64 = 100_000;

/// The automaton, built at its first use.
#[derive(Debug)]
pub(super) struct Lazy {
    /// The pattern in the syntax of the regex crate; absent where the program is too long.
    source: Option<String>,
    built: OnceLock<Option<DFA>>,
}

impl Lazy {
    pub(super) fn new(source: String, length: u64) -> Self {
        Self { source: (length <= LONGEST).then_some(source), built: OnceLock::new() }
    }

    /// The steps of a search of `text`.
    pub(super) fn steps(text: &str) -> u64 {
        u64::try_from(text.len()).unwrap_or(u64::MAX) / BYTES_PER_STEP + BUILDING
    }

    /// Whether the pattern is found in `text`; `None` where it gives up.
    pub(super) fn is_match(&self, text: &str) -> Option<bool> {
        let source = self.source.as_deref()?;
        let dfa = self.built.get_or_init(|| build(source)).as_ref()?;
        let mut cache = dfa.create_cache();
        let found = dfa.try_search_fwd(&mut cache, &Input::new(text).earliest(true));
        found.ok().map(|found| found.is_some())
    }
}

fn build(source: &str) -> Option<DFA> {
    let config = DFA::config()
        .cache_capacity(CACHE)
        .minimum_cache_clear_count(Some(CLEARS))
        .minimum_bytes_per_state(Some(BYTES_PER_STATE))
        // Its word boundaries are correct for ASCII texts only; on other texts it gives up.
        .unicode_word_boundary(true);
    let nfa = thompson::Config::new().nfa_size_limit(Some(MAX_BYTES));
    DFA::builder().configure(config).thompson(nfa).build(source).ok()
}
