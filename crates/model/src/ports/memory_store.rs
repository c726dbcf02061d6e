//! The port of the memory: turns to index, chunks, facts, vectors, and the search for them.
//!
//! A backend stores and finds; it must never cut a text, rank across lists or call an embedder. Each write is one transaction.

use std::sync::Arc;

use crate::{
    AgentToolCall, FactFilter, ForgetOptions, MemoryFact, MemoryForgotten, MemoryFound, MemoryKind,
    MemoryModel, MemoryQuery, MemoryReindex, MemoryScope, Page, PortFuture, SessionIdentity,
};

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
}

/// The counts of a memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryCounts {
    /// The turns that are indexed.
    pub turns: u64,
    /// The chunks.
    pub chunks: u64,
    /// The facts that hold.
    pub facts: u64,
    /// The turns that are not indexed yet.
    pub pending_turns: u64,
    /// The chunks after the model's cursor.
    pub pending_vectors: u64,
    /// The chunks that the model's embedder refused.
    pub skipped: u64,
    /// The reason of the last one.
    pub skipped_problem: Option<String>,
    /// The turns with text that is left out.
    pub clipped_turns: u64,
    /// Turns and facts that are forgotten.
    pub forgotten: u64,
    /// The models with vectors.
    pub models: Vec<MemoryModel>,
    /// Tokens, and their cost where all of them have a price.
    pub cost: EmbeddingCost,
}

/// The memory of a ledger.
pub trait MemoryStore: Send + Sync {
    /// From now on each turn that is committed through this handle is noted as pending, in its own transaction.
    fn remember_turns(&self, wake: MemoryWake);

    /// The oldest pending turns, with their tool calls where those are asked for.
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
    /// `unknown_fact` if the fact that it supersedes does not hold any more or is not there.
    fn store_fact(&self, fact: Box<FactInput>) -> PortFuture<'static, MemoryFact>;

    /// Facts in the order in which they were stored. `scopes`: `None` for all.
    fn facts(
        &self,
        filter: FactFilter,
        scopes: Option<Vec<MemoryScope>>,
    ) -> PortFuture<'_, Page<MemoryFact, i64>>;

    /// The facts of the same type about the same entity as `fact` that hold as well. `scopes`: `None` for all.
    fn alike(
        &self,
        fact: MemoryFact,
        scopes: Option<Vec<MemoryScope>>,
    ) -> PortFuture<'_, Vec<MemoryFact>>;

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

    /// Notes the turns that are neither indexed nor forgotten as pending; with a model, all its vectors and those of other models are made
    /// anew.
    fn reindex(&self, model: Option<i64>) -> PortFuture<'static, MemoryReindex>;
}
