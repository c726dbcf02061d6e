//! The port of the memory: turns to index, chunks, facts, vectors, and the search for them.
//!
//! A backend stores and finds; it must never cut a text, rank across lists or call an embedder. Each write is one transaction.

use std::sync::Arc;

use crate::{
    AgentToolCall, CallCost, CallPurpose, FactFilter, ForgetOptions, MemoryFact, MemoryForgotten,
    MemoryFound, MemoryKind, MemoryQuery, MemoryReindex, MemoryScope, MemoryTotals, Page,
    PortFuture, SessionIdentity, TokenUsage, VectorSearch,
};

/// The bytes of texts after which no other pending turn is read: what is read at once is held in memory.
pub const PENDING_BYTES: usize = 1024 * 1024;

/// What becomes of the vectors when turns are indexed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vectors {
    /// Those of the model stay.
    Stay,
    /// All are made anew.
    Anew,
}

/// Called after a commit that has left something to index. It returns at once.
pub type MemoryWake = Arc<dyn Fn() + Send + Sync>;

/// A turn that is to be indexed.
#[derive(Debug, Clone)]
pub struct PendingTurn {
    /// The turn.
    pub turn_id: String,
    /// Its session.
    pub session_label: String,
    /// What decides the session's scope.
    pub identity: SessionIdentity,
    /// Whether it is a compaction: its text is the session's summary.
    pub is_summary: bool,
    /// The texts of its messages that are searched, in their order.
    pub texts: Vec<PendingText>,
    /// Its tool calls, where they are asked for.
    pub calls: Vec<AgentToolCall>,
}

impl PendingTurn {
    /// The bytes of its texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.texts.iter().map(|text| text.text.len()).sum()
    }
}

/// A text of a turn.
#[derive(Debug, Clone)]
pub struct PendingText {
    /// The role of its author.
    pub role: String,
    /// The text.
    pub text: String,
    /// Unix milliseconds.
    pub created_at: i64,
}

/// A turn as it is indexed.
#[derive(Debug, Clone)]
pub struct IndexedTurn {
    /// The turn.
    pub turn_id: String,
    /// Its session.
    pub session_label: String,
    /// Where its texts belong.
    pub scope: MemoryScope,
    /// [`MemoryKind::Turn`] or [`MemoryKind::Summary`].
    pub kind: MemoryKind,
    /// Its chunks in their order.
    pub chunks: Vec<PendingText>,
    /// Whether some of its text is left out.
    pub is_clipped: bool,
    /// What its tools have observed.
    pub facts: Vec<FactInput>,
    /// Whether a model is to extract its facts.
    pub extracts: bool,
}

/// A turn whose facts a model has not extracted yet.
#[derive(Debug, Clone)]
pub struct UnextractedTurn {
    /// The turn.
    pub turn: PendingTurn,
    /// The answers that could not be used so far.
    pub attempts: u32,
}

/// A fact that a model has found.
#[derive(Debug, Clone)]
pub struct ExtractedFact {
    /// The fact.
    pub input: FactInput,
    /// Whether it takes the place of what held of its entity and type.
    pub replaces: bool,
}

/// What a call of a model for the memory has used.
#[derive(Debug, Clone)]
pub struct MemoryCall {
    /// The session that pays.
    pub session_label: String,
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// [`CallPurpose::Embed`] or [`CallPurpose::Extract`].
    pub purpose: CallPurpose,
    /// The tokens.
    pub usage: TokenUsage,
    /// In billionths of a US dollar; `None` for a model without a price.
    pub nanos: Option<u64>,
    /// Unix milliseconds.
    pub at: i64,
}

/// A chunk that has no vector yet.
#[derive(Debug, Clone)]
pub struct UnembeddedChunk {
    /// Its number.
    pub n: i64,
    /// The text.
    pub text: String,
}

/// What became of a chunk.
#[derive(Debug, Clone)]
pub enum EmbeddedChunk {
    /// Its vector, of unit length.
    Vector(Vec<f32>),
    /// The embedder refused it, for this reason.
    Skipped(String),
}

/// What the embedding of some chunks has cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmbeddingCost {
    /// The tokens.
    pub tokens: u64,
    /// In billionths of a US dollar; `None` for a model without a price.
    pub nanos: Option<u64>,
}

/// A fact to store, with all that was left open.
#[derive(Debug, Clone)]
pub struct FactInput {
    /// The fact. An export's fact has the id that it had.
    pub fact: MemoryFact,
    /// The texts that are searched.
    pub texts: Vec<String>,
    /// The fact that it supersedes.
    pub supersedes: Option<String>,
    /// Where that fact must belong; `None` for anywhere.
    pub within: Option<MemoryScope>,
}

/// The counts of a memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryCounts {
    /// How much it has; `pending_vectors` and `skipped` are those of the model that was named.
    pub totals: MemoryTotals,
    /// What embedding has cost: tokens, and their price where all of them have one.
    pub cost: EmbeddingCost,
    /// The turns whose facts are not extracted yet.
    pub pending_extractions: u64,
    /// The turns whose facts could not be extracted.
    pub skipped_extractions: u64,
    /// The reason of the last one.
    pub extraction_problem: Option<String>,
    /// What extraction has cost.
    pub extraction_cost: EmbeddingCost,
}

/// The memory of a ledger.
pub trait MemoryStore: Send + Sync {
    /// From now on each turn that is committed through this handle is noted as pending, in its own transaction.
    fn remember_turns(&self, wake: MemoryWake);

    /// How the host wants vectors to be searched. A ledger that has only one way uses that.
    fn search_by(&self, _search: VectorSearch) {}

    /// Adds some stored vectors of the model to the index that searches may use. Returns whether there may be more. Why it failed is in
    /// the counts.
    fn index_vectors(&self, _model: i64) -> PortFuture<'static, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// The oldest pending turns, with their tool calls where those are asked for: at most `limit`, and none after texts of
    /// [`PENDING_BYTES`].
    fn pending_turns(&self, limit: usize, with_calls: bool) -> PortFuture<'_, Vec<PendingTurn>>;

    /// Stores the chunks of a turn if it is still pending. False if it is not: it is indexed, forgotten or deleted.
    fn index_turn(&self, turn: IndexedTurn) -> PortFuture<'static, bool>;

    /// What decides the scope of a session, whether it exists or not.
    fn identity_of(&self, session_label: String) -> PortFuture<'_, SessionIdentity>;

    /// The number of an embedder's model; the first use of it defines it.
    fn model(&self, name: String, dimensions: u32) -> PortFuture<'static, i64>;

    /// The next chunks that have no vector of the model.
    fn unembedded(&self, model: i64, limit: usize) -> PortFuture<'_, Vec<UnembeddedChunk>>;

    /// Stores what became of chunks, in their order, and moves the model's cursor behind them. A chunk that is gone is left out.
    fn embedded(
        &self,
        model: i64,
        chunks: Vec<(i64, EmbeddedChunk)>,
        cost: EmbeddingCost,
    ) -> PortFuture<'static, ()>;

    /// The best candidates of each list.
    fn find(&self, query: MemoryQuery) -> PortFuture<'_, MemoryFound>;

    /// Stores a fact. One that says the same in the same scope and holds is returned in its place.
    ///
    /// # Errors
    /// `unknown_fact` if the fact that it supersedes does not hold any more, is not there, or does not belong where it must.
    fn store_fact(&self, fact: Box<FactInput>) -> PortFuture<'static, MemoryFact>;

    /// Facts in the order in which they were stored. `scopes`: `None` for all.
    fn facts(
        &self,
        filter: FactFilter,
        scopes: Option<Vec<MemoryScope>>,
    ) -> PortFuture<'_, Page<MemoryFact, i64>>;

    /// For each of the facts, those of the same type about the same entity that hold as well. `scopes`: `None` for all.
    fn alike(
        &self,
        facts: Vec<MemoryFact>,
        scopes: Option<Vec<MemoryScope>>,
    ) -> PortFuture<'_, Vec<Vec<MemoryFact>>>;

    /// The oldest turns whose facts are not extracted yet.
    fn unextracted(&self, limit: usize) -> PortFuture<'_, Vec<UnextractedTurn>>;

    /// Stores the facts of a turn if they are not extracted yet. A fact that is known is left out; one that replaces others ends those that are
    /// not newer and not more certain. False if the turn is not to be extracted any more.
    fn extracted(&self, turn_id: String, facts: Vec<ExtractedFact>) -> PortFuture<'static, bool>;

    /// Notes an answer about a turn that could not be used; with `gives_up` there is no other attempt.
    fn not_extracted(
        &self,
        turn_id: String,
        problem: String,
        gives_up: bool,
    ) -> PortFuture<'static, ()>;

    /// Adds a call to the usage of the memory.
    fn used(&self, call: MemoryCall) -> PortFuture<'static, ()>;

    /// What extraction has used on the UTC day of a time.
    fn extraction_spent(&self, at: i64) -> PortFuture<'_, CallCost>;

    /// Whether a fact of this id was forgotten.
    fn is_forgotten(&self, id: String) -> PortFuture<'_, bool>;

    /// The fact with this id.
    fn fact(&self, id: String) -> PortFuture<'_, Option<MemoryFact>>;

    /// Forgets for good: texts, words and vectors go, and a tombstone stays.
    fn forget(&self, options: ForgetOptions) -> PortFuture<'static, MemoryForgotten>;

    /// The summary of a session's last compaction.
    fn summary(&self, session_label: String) -> PortFuture<'_, Option<String>>;

    /// The turns that the next context of a session has, the newest first: at most some thousands.
    fn turns_in_context(&self, session_label: String) -> PortFuture<'_, Vec<String>>;

    /// The counts, with those of a model.
    fn counts(&self, model: Option<i64>) -> PortFuture<'_, MemoryCounts>;

    /// Notes the turns that are neither indexed nor forgotten as pending, and those whose extraction was given up. Vectors of other
    /// models than `model` are deleted once each chunk has been embedded with it.
    fn reindex(&self, model: Option<i64>, vectors: Vectors) -> PortFuture<'static, MemoryReindex>;
}
