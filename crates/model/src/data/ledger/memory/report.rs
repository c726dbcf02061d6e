//! What the memory has done: its size, its progress, what was forgotten.
//!
//! Numbers and short texts only: it must never hold what is remembered.

use serde::{Deserialize, Serialize};

use crate::MemoryScope;

/// How the closest vectors are found before they are ranked exactly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum VectorSearch {
    /// A scan of short codes in each process.
    #[default]
    Scan,
    /// The index of pgvector on the server.
    Pgvector,
}

/// The vectors of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct MemoryModel {
    /// The embedder's name: `openai/text-embedding-3-small`.
    pub name: String,
    /// The numbers of a vector.
    pub dimensions: u32,
    /// The stored vectors.
    pub vectors: u64,
    /// Whether the engine embeds with it.
    pub current: bool,
    /// How they are searched.
    pub search: VectorSearch,
    /// Why they are scanned although the host asked for pgvector, or what failed last in its index. Null where nothing is wrong.
    pub search_problem: Option<String>,
}

/// How much the memory has, and what it still has to do.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct MemoryTotals {
    /// The turns that are indexed.
    pub turns: u64,
    /// The chunks of texts, facts and summaries included.
    pub chunks: u64,
    /// The facts that hold.
    pub facts: u64,
    /// The ended turns that are not indexed yet.
    pub pending_turns: u64,
    /// The chunks that have no vector of the engine's embedder yet. They are found by words.
    pub pending_vectors: u64,
    /// The chunks that the embedder refused. They are found by words.
    pub skipped: u64,
    /// The reason of the last one.
    pub skipped_problem: Option<String>,
    /// The turns whose text was longer than is indexed: the rest of it is not found.
    pub clipped_turns: u64,
    /// What was forgotten and stays so.
    pub forgotten: u64,
    /// The vectors, by model.
    pub models: Vec<MemoryModel>,
}

/// The extraction of facts by a model.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct MemoryExtraction {
    /// The indexed turns whose facts are not extracted yet.
    pub pending: u64,
    /// The turns whose facts could not be extracted.
    pub skipped: u64,
    /// The reason of the last one.
    pub skipped_problem: Option<String>,
    /// The tokens that its calls have used.
    pub tokens: u64,
    /// Their cost in US dollars. Null where a model has no price.
    pub cost: Option<f64>,
    /// The last failure. Null where the last attempt succeeded.
    pub problem: Option<String>,
}

/// What the memory has, what it still has to do, and what that has cost.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct MemoryStats {
    /// How much it has.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", ts(flatten))]
    pub totals: MemoryTotals,
    /// The tokens that were embedded.
    pub embedded_tokens: u64,
    /// Their cost in US dollars. Null where a model has no price.
    pub cost: Option<f64>,
    /// The extraction of facts; null for an engine whose memory has none.
    pub extraction: Option<MemoryExtraction>,
    /// The last failure of the indexer or of the embedder. Null where the last attempt succeeded.
    pub problem: Option<String>,
}

/// What is forgotten. Exactly one of the four.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForgetOptions {
    /// A fact.
    #[serde(default)]
    pub id: Option<String>,
    /// All facts about an entity, superseded ones included.
    #[serde(default)]
    pub entity: Option<String>,
    /// A turn, and the facts that were learned in it.
    #[serde(default)]
    pub turn_id: Option<String>,
    /// All turns of a session, and the facts that were learned in them.
    #[serde(default)]
    pub session: Option<String>,
    /// Only in these scopes.
    #[serde(default)]
    pub scopes: Option<Vec<MemoryScope>>,
    /// Only where the texts of this session belong. Either this or `scopes`.
    #[serde(default)]
    pub within: Option<String>,
    /// Rewrites the file as well, which takes time and space: no free page has the text any more.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<bool>"))]
    pub secure: bool,
}

/// What was forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct MemoryForgotten {
    /// The turns.
    pub turns: u64,
    /// The facts.
    pub facts: u64,
    /// The chunks of their texts.
    pub chunks: u64,
    /// The turns with compaction summaries of texts that were forgotten: they may quote them. Delete them from the ledger to remove them.
    pub summaries: Vec<String>,
    /// Whether its bytes were overwritten in the file and the log was emptied. False if a reader holds the log back.
    pub overwritten: bool,
}

/// The progress of `reindex()`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct MemoryReindex {
    /// The turns that are indexed next.
    pub turns: u64,
    /// The chunks that are embedded next.
    pub chunks: u64,
}
