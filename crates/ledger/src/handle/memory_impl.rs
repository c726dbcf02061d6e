//! The port `MemoryStore` over the writer, the readers and the codes in memory. It must never rank.

use std::sync::Arc;

use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode};

use crate::deletion::overwrite;
use crate::handle::ledger::Ledger;
use crate::lease::claim::Claim;
use crate::memory_rows::{
    counts, extraction_rows, fact_rows, find, forget, pending, scope_rows, secure::securely,
    usage_rows, vector_rows,
};
use crate::sqlite::error::{Stored, sqlite};
use crate::sqlite::readers;
use model::{
    CallCost, EmbeddedChunk, EmbeddingCost, ExtractedFact, FactFilter, FactInput, ForgetOptions,
    IndexedTurn, MemoryCall, MemoryCounts, MemoryFact, MemoryForgotten, MemoryFound, MemoryQuery,
    MemoryReindex, MemoryScope, MemoryStore, MemoryWake, Page, PendingTurn, PortFuture,
    SessionIdentity, UnembeddedChunk, UnextractedTurn, Vectors,
};

impl MemoryStore for Ledger {
    fn remember_turns(&self, wake: MemoryWake) {
        // A second engine has a handle of its own.
        let _ = self.memory.set(wake);
    }

    fn pending_turns(&self, limit: usize, with_calls: bool) -> PortFuture<'_, Vec<PendingTurn>> {
        self.read(move |connection| pending::oldest(connection, limit, with_calls))
    }

    fn index_turn(&self, turn: IndexedTurn) -> PortFuture<'static, bool> {
        let submitted = self.core().map(|core| {
            // A power cut that undoes it leaves the turn pending.
            core.writer.submit_repeatable(move |connection| {
                securely(connection, |connection| pending::index(connection, &turn))
            })
        });
        Box::pin(async move { submitted?.await })
    }

    fn identity_of(&self, session_label: String) -> PortFuture<'_, SessionIdentity> {
        self.read_small(move |connection| scope_rows::identity_of(connection, &session_label))
    }

    fn model(&self, name: String, dimensions: u32) -> PortFuture<'static, i64> {
        self.change_queue(move |connection, _| vector_rows::model(connection, &name, dimensions))
    }

    fn unembedded(&self, model: i64, limit: usize) -> PortFuture<'_, Vec<UnembeddedChunk>> {
        self.read(move |connection| vector_rows::unembedded(connection, model, limit))
    }

    fn embedded(
        &self,
        model: i64,
        chunks: Vec<(i64, EmbeddedChunk)>,
        cost: EmbeddingCost,
    ) -> PortFuture<'static, ()> {
        self.change_queue(move |connection, _| {
            vector_rows::embedded(connection, model, &chunks, cost)
        })
    }

    fn find(&self, query: MemoryQuery) -> PortFuture<'_, MemoryFound> {
        Box::pin(async move {
            let core = self.core()?;
            let open = Arc::clone(&core);
            let read = move |connection: &Connection| find::find(connection, &open.codes, &query);
            core.readers.run(|connection| readers::snapshot(connection, read)).await
        })
    }

    fn store_fact(&self, fact: Box<FactInput>) -> PortFuture<'static, MemoryFact> {
        self.change_queue(move |connection, _| {
            securely(connection, |connection| fact_rows::store(connection, &fact))
        })
    }

    fn facts(
        &self,
        filter: FactFilter,
        scopes: Option<Vec<MemoryScope>>,
    ) -> PortFuture<'_, Page<MemoryFact, i64>> {
        self.read(move |connection| fact_rows::list(connection, &filter, scopes.as_deref()))
    }

    fn alike(
        &self,
        facts: Vec<MemoryFact>,
        scopes: Option<Vec<MemoryScope>>,
    ) -> PortFuture<'_, Vec<Vec<MemoryFact>>> {
        self.read(move |connection| {
            let scopes = scopes.as_ref().map(|scopes| scope_rows::numbers(connection, scopes));
            let scopes = scopes.transpose()?.map(|numbers| fact_rows::as_json(&numbers));
            let of = |fact| fact_rows::alike(connection, fact, scopes.as_deref());
            facts.iter().map(of).collect()
        })
    }

    fn unextracted(&self, limit: usize) -> PortFuture<'_, Vec<UnextractedTurn>> {
        self.read(move |connection| extraction_rows::oldest(connection, limit))
    }

    fn extracted(&self, turn_id: String, facts: Vec<ExtractedFact>) -> PortFuture<'static, bool> {
        self.change_queue(move |connection, _| {
            securely(connection, |connection| extraction_rows::store(connection, &turn_id, &facts))
        })
    }

    fn not_extracted(
        &self,
        turn_id: String,
        problem: String,
        gives_up: bool,
    ) -> PortFuture<'static, ()> {
        self.change_queue(move |connection, _| {
            extraction_rows::failed(connection, &turn_id, &problem, gives_up)
        })
    }

    fn used(&self, call: MemoryCall) -> PortFuture<'static, ()> {
        self.change_queue(move |connection, _| usage_rows::add(connection, &call))
    }

    fn extraction_spent(&self, at: i64) -> PortFuture<'_, CallCost> {
        self.read_small(move |connection| usage_rows::extracted_on(connection, at))
    }

    fn fact(&self, id: String) -> PortFuture<'_, Option<MemoryFact>> {
        self.read_small(move |connection| fact_rows::fact(connection, &id))
    }

    fn is_forgotten(&self, id: String) -> PortFuture<'_, bool> {
        self.read_small(move |connection| forget::is_forgotten(connection, "fact", &id))
    }

    fn forget(&self, options: ForgetOptions) -> PortFuture<'static, MemoryForgotten> {
        let core = self.core();
        Box::pin(async move {
            let core = core?;
            let (now, secure) = (core.claim.clock.now_ms(), options.secure);
            let work = move |connection: &Connection| {
                securely(connection, |connection| forget::forget(connection, &options, now))
            };
            let mut done = core.writer.submit(work).await?;
            let path = core.path.clone();
            let rest = core.writer.submit_alone(move |connection| {
                if secure { overwrite::overwrite(connection, &path) } else { empty_log(connection) }
            });
            done.overwritten = rest.await?;
            Ok(done)
        })
    }

    fn summary(&self, session_label: String) -> PortFuture<'_, Option<String>> {
        self.read(move |connection| counts::summary(connection, &session_label))
    }

    fn turns_in_context(&self, session_label: String) -> PortFuture<'_, Vec<String>> {
        self.read(move |connection| counts::turns_in_context(connection, &session_label))
    }

    fn counts(&self, model: Option<i64>) -> PortFuture<'_, MemoryCounts> {
        self.read(move |connection| counts::counts(connection, model))
    }

    fn reindex(&self, model: Option<i64>, vectors: Vectors) -> PortFuture<'static, MemoryReindex> {
        self.change_queue(move |connection, _: &Claim| {
            securely(connection, |connection| pending::again(connection, model, vectors))
        })
    }
}

/// Moves the log into the file and empties it, so that no older version of a page is left. False if a reader holds it back.
fn empty_log(connection: &Connection) -> Stored<bool> {
    match connection.wal_checkpoint_v2(Some(rusqlite::MAIN_DB), CheckpointMode::TRUNCATE) {
        Ok((pages, copied)) => Ok(copied >= pages),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(false),
        Err(error) => Err(sqlite("empty the ledger's log", &error)),
    }
}
