//! A search in the memory: the options, what a backend finds, and the hits that a host gets.
//!
//! Plain data: the backend finds candidates, the memory's crate ranks them.

use serde::{Deserialize, Serialize};

use crate::data::broker::names;
use crate::{MemoryFact, MemoryScope};

/// What something that is remembered was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// A part of a message of a turn.
    Turn,
    /// A fact.
    Fact,
    /// The rolling summary of a session.
    Summary,
}

names!(MemoryKind { Turn = "turn", Fact = "fact", Summary = "summary" });

/// Why something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum MemoryWhy {
    /// It has words of the query.
    Words,
    /// Its vector is close to that of the query.
    Vector,
    /// Both.
    Both,
}

/// The options of a search.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemorySearchOptions {
    /// What this session may see. One of `session`, `scopes` and `all` is needed.
    #[serde(default)]
    pub session: Option<String>,
    /// What is in these scopes.
    #[serde(default)]
    pub scopes: Option<Vec<MemoryScope>>,
    /// What is in any scope: never for an answer that a user sees.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<bool>"))]
    pub all: bool,
    /// Only these kinds. Default: all.
    #[serde(default)]
    pub kinds: Option<Vec<MemoryKind>>,
    /// Only what was written at this time or later, in Unix milliseconds.
    #[serde(default)]
    pub since: Option<i64>,
    /// Only what was written before this time.
    #[serde(default)]
    pub until: Option<i64>,
    /// The limit of hits: 1 to 100. Default 10.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Only hits with at least this score: 0 to 1. The best hit of both lists has 1.
    #[serde(default)]
    pub min_score: Option<f64>,
    /// Turns that are left out, such as those that the context has already.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<Vec<String>>"))]
    pub exclude_turns: Vec<String>,
    /// Leaves out what the next context of this session has anyway: its turns since the last compaction, and its summary.
    #[serde(default)]
    pub exclude_context_of: Option<String>,
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct MemoryHit {
    /// What it is of.
    pub kind: MemoryKind,
    /// Where it belongs.
    pub scope: MemoryScope,
    /// The session of its turn; null for a fact.
    pub session_label: Option<String>,
    /// Its turn; null for a fact.
    pub turn_id: Option<String>,
    /// The role of the message's author; null for a fact.
    #[cfg_attr(feature = "testing", ts(type = "'user' | 'assistant' | 'system' | null"))]
    pub role: Option<String>,
    /// The text: at most 400 tokens of it.
    pub excerpt: String,
    /// Unix milliseconds.
    pub created_at: i64,
    /// The rank as a number: 1 is the best possible.
    pub score: f64,
    /// Why it was found.
    pub why: MemoryWhy,
    /// The fact.
    pub fact: Option<MemoryFact>,
    /// Other facts of the same type about the same entity that hold as well.
    pub conflicts: Vec<MemoryFact>,
}

/// The hits of a search.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct MemoryHits {
    /// The best first.
    pub hits: Vec<MemoryHit>,
    /// The model whose vectors were searched. Null where only words were.
    pub model: Option<String>,
    /// Why only words were searched, although the engine has an embedder.
    pub problem: Option<String>,
}

/// What a backend searches for.
#[derive(Debug, Clone, Default)]
pub struct MemoryQuery {
    /// The text.
    pub text: String,
    /// The number of a model, and the query's vector of unit length.
    pub vector: Option<(i64, Vec<f32>)>,
    /// The scopes; `None` for all.
    pub scopes: Option<Vec<MemoryScope>>,
    /// The kinds; `None` for all.
    pub kinds: Option<Vec<MemoryKind>>,
    /// Only what was written at this time or later.
    pub since: Option<i64>,
    /// Only what was written before this time.
    pub until: Option<i64>,
    /// How many of each list.
    pub limit: usize,
}

/// Something that is remembered, as a backend finds it.
#[derive(Debug, Clone)]
pub struct MemoryRow {
    /// Its number.
    pub n: i64,
    /// What it is of.
    pub kind: MemoryKind,
    /// Where it belongs.
    pub scope: MemoryScope,
    /// The session of its turn.
    pub session_label: Option<String>,
    /// Its turn.
    pub turn_id: Option<String>,
    /// The role of the message's author.
    pub role: Option<String>,
    /// The text.
    pub text: String,
    /// Unix milliseconds.
    pub created_at: i64,
    /// The fact.
    pub fact: Option<MemoryFact>,
}

/// Something that a list of a search has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryCandidate {
    /// The number of its row.
    pub n: i64,
    /// How well it matches; comparable within its list alone. Not negative.
    pub score: f64,
}

/// The two lists of a search, each with the best first, by the numbers of `rows`.
#[derive(Debug, Clone, Default)]
pub struct MemoryFound {
    /// By words.
    pub words: Vec<MemoryCandidate>,
    /// By vectors.
    pub vectors: Vec<MemoryCandidate>,
    /// What they name.
    pub rows: Vec<MemoryRow>,
}
