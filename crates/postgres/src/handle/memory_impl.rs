//! The port of the memory over the statements. It must never rank.

use std::sync::atomic::Ordering;

use model::{
    CallCost, EmbeddedChunk, EmbeddingCost, ExtractedFact, FactFilter, FactInput, ForgetOptions,
    IndexedTurn, MemoryCall, MemoryCounts, MemoryFact, MemoryForgotten, MemoryFound, MemoryQuery,
    MemoryReindex, MemoryScope, MemoryStore, MemoryWake, Page, PendingTurn, PortFuture,
    SessionIdentity, UnembeddedChunk, UnextractedTurn, VectorSearch, Vectors,
};

use crate::connect::error::Failure;
use crate::handle::postgres::Postgres;
use crate::memory::{chunks, counts, facts, find, forget, pgvector, turns, vectors};
use crate::queue::transaction::{Transaction, transact};

const WRITING: &str = "write to the memory";

impl Postgres {
    fn remember<T: Send + 'static>(
        &self,
        work: impl AsyncFn(&Transaction<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> PortFuture<'static, T> {
        self.change(None, WRITING, work)
    }
}

impl MemoryStore for Postgres {
    fn remember_turns(&self, wake: MemoryWake) {
        // A second engine has a handle of its own.
        let _ = self.live.memory.set(wake);
    }

    fn search_by(&self, search: VectorSearch) {
        self.live.uses_pgvector.store(search == VectorSearch::Pgvector, Ordering::Release);
    }

    fn index_vectors(&self, model: i64) -> PortFuture<'static, bool> {
        self.submit(None, move |server| async move { Ok(pgvector::index(&server, model).await) })
    }

    fn pending_turns(&self, limit: usize, with_calls: bool) -> PortFuture<'_, Vec<PendingTurn>> {
        self.submit(
            None,
            move |server| async move { turns::pending(&server, limit, with_calls).await },
        )
    }

    fn index_turn(&self, turn: IndexedTurn) -> PortFuture<'static, bool> {
        self.remember(async move |transaction: &Transaction<'_>| {
            turns::index(transaction, &turn).await
        })
    }

    fn identity_of(&self, session_label: String) -> PortFuture<'_, SessionIdentity> {
        self.submit(
            None,
            move |server| async move { turns::identity_of(&server, &session_label).await },
        )
    }

    fn model(&self, name: String, dimensions: u32) -> PortFuture<'static, i64> {
        self.remember(async move |transaction: &Transaction<'_>| {
            vectors::model(transaction, &name, dimensions).await
        })
    }

    fn unembedded(&self, model: i64, limit: usize) -> PortFuture<'_, Vec<UnembeddedChunk>> {
        self.submit(
            None,
            move |server| async move { vectors::unembedded(&server, model, limit).await },
        )
    }

    fn embedded(
        &self,
        model: i64,
        chunks: Vec<(i64, EmbeddedChunk)>,
        cost: EmbeddingCost,
    ) -> PortFuture<'static, ()> {
        self.remember(async move |transaction: &Transaction<'_>| {
            vectors::embedded(transaction, model, &chunks, cost).await
        })
    }

    fn find(&self, query: MemoryQuery) -> PortFuture<'_, MemoryFound> {
        self.submit(None, move |server| async move { find::find(&server, &query).await })
    }

    fn store_fact(&self, fact: Box<FactInput>) -> PortFuture<'static, MemoryFact> {
        self.remember(async move |transaction: &Transaction<'_>| {
            chunks::lock(transaction).await?;
            facts::store(transaction, &fact).await
        })
    }

    fn facts(
        &self,
        filter: FactFilter,
        scopes: Option<Vec<MemoryScope>>,
    ) -> PortFuture<'_, Page<MemoryFact, i64>> {
        self.submit(None, move |server| async move {
            facts::list(&server, &filter, scopes.as_deref()).await
        })
    }

    fn alike(
        &self,
        facts: Vec<MemoryFact>,
        scopes: Option<Vec<MemoryScope>>,
    ) -> PortFuture<'_, Vec<Vec<MemoryFact>>> {
        self.submit(None, move |server| async move {
            facts::alike(&server, &facts, scopes.as_deref()).await
        })
    }

    fn unextracted(&self, limit: usize) -> PortFuture<'_, Vec<UnextractedTurn>> {
        self.submit(None, move |server| async move { turns::unextracted(&server, limit).await })
    }

    fn extracted(&self, turn_id: String, facts: Vec<ExtractedFact>) -> PortFuture<'static, bool> {
        self.remember(async move |transaction: &Transaction<'_>| {
            turns::extracted(transaction, &turn_id, &facts).await
        })
    }

    fn not_extracted(
        &self,
        turn_id: String,
        problem: String,
        gives_up: bool,
    ) -> PortFuture<'static, ()> {
        self.submit(None, move |server| async move {
            turns::not_extracted(&server, &turn_id, &problem, gives_up).await
        })
    }

    fn used(&self, call: MemoryCall) -> PortFuture<'static, ()> {
        self.submit(None, move |server| async move { counts::used(&server, &call).await })
    }

    fn extraction_spent(&self, at: i64) -> PortFuture<'_, CallCost> {
        self.submit(None, move |server| async move { counts::extracted_on(&server, at).await })
    }

    fn fact(&self, id: String) -> PortFuture<'_, Option<MemoryFact>> {
        self.submit(
            None,
            move |server| async move { Ok(facts::of_ids(&server, &[id]).await?.pop()) },
        )
    }

    fn is_forgotten(&self, id: String) -> PortFuture<'_, bool> {
        self.submit(None, move |server| async move { forget::is_forgotten(&server, &id).await })
    }

    fn forget(&self, options: ForgetOptions) -> PortFuture<'static, MemoryForgotten> {
        let clock = self.clock.clone();
        self.submit(None, move |server| async move {
            let scopes = chunks::scopes(&server, options.scopes.as_deref()).await?;
            let work = async |transaction: &Transaction<'_>| {
                forget::forget(transaction, &options, &scopes).await
            };
            transact((&server, &clock), "forget", work).await
        })
    }

    fn summary(&self, session_label: String) -> PortFuture<'_, Option<String>> {
        self.submit(
            None,
            move |server| async move { counts::summary(&server, &session_label).await },
        )
    }

    fn turns_in_context(&self, session_label: String) -> PortFuture<'_, Vec<String>> {
        self.submit(None, move |server| async move {
            counts::turns_in_context(&server, &session_label).await
        })
    }

    fn counts(&self, model: Option<i64>) -> PortFuture<'_, MemoryCounts> {
        self.submit(None, move |server| async move { counts::counts(&server, model).await })
    }

    fn reindex(&self, model: Option<i64>, vectors: Vectors) -> PortFuture<'static, MemoryReindex> {
        self.remember(async move |transaction: &Transaction<'_>| {
            turns::again(transaction, model, vectors).await
        })
    }
}
