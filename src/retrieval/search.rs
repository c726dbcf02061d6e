//! A search: the vector of the query, the two lists of the store, and the hits they are joined to. It must never show what the scopes
//! of the search do not have.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::observations::OBSERVATION;
use super::secrets::clipped;
use super::service::Memory;
use base::error::EngineError;
use base::words::search_words;
use memory::assemble::{ContextBudget, RememberedContext, lines};
use memory::rank::{self, LOOKED_AT, distinct, fuse, prefer_new};
use model::{
    InputError, MemoryFact, MemoryFound, MemoryHit, MemoryHits, MemoryQuery, MemoryRow,
    MemoryScope, MemorySearchOptions,
};

/// The candidates of each list.
const CANDIDATES: usize = 100;
const LIMIT: u32 = 10;
const MOST: u32 = 100;
/// The most bytes of a query: more words find no more.
const MOST_QUERY: usize = 8_192;
/// The longest wait for what is indexed before a search.
const INDEX_TIME: Duration = Duration::from_secs(3);

impl Memory {
    /// The scopes that a call names. Exactly one way.
    pub(super) async fn scopes(
        &self,
        session: Option<&str>,
        scopes: Option<Vec<MemoryScope>>,
        all: bool,
    ) -> Result<Option<Vec<MemoryScope>>, EngineError> {
        match (session, scopes, all) {
            (Some(session), None, false) => Ok(Some(self.visible_to(session).await?)),
            (None, Some(scopes), false) => Ok(Some(scopes)),
            (None, None, true) => Ok(None),
            (None, None, false) => Err(EngineError::option(InputError::new(
                "session",
                "is missing; pass `session`, `scopes`, or `all: true`",
            ))),
            _ => Err(EngineError::option(InputError::new(
                "session",
                "is not the only one; pass one of `session`, `scopes` and `all`",
            ))),
        }
    }

    /// The hits of a query, the best first.
    pub(crate) async fn search(
        self: &Arc<Self>,
        query: &str,
        options: MemorySearchOptions,
    ) -> Result<MemoryHits, EngineError> {
        let limit = options.limit.unwrap_or(LIMIT);
        if !(1..=MOST).contains(&limit) {
            let message = format!("`{limit}` is not a number of hits; pass 1 to {MOST}");
            return Err(EngineError::option(InputError::new("limit", message)));
        }
        let least = options.min_score.unwrap_or_default();
        if !(0.0..=1.0).contains(&least) {
            let message = format!("`{least}` is not a score; pass 0 to 1");
            return Err(EngineError::option(InputError::new("minScore", message)));
        }
        let scopes = self.scopes(options.session.as_deref(), options.scopes, options.all).await?;
        // An embedder is another service: it gets no keys either.
        let query = self.parts.engine.known_keys().clean(clipped(query, 2 * MOST_QUERY));
        let query = clipped(&query, MOST_QUERY);
        let mut excluded: HashSet<String> = options.exclude_turns.into_iter().collect();
        if let Some(session) = options.exclude_context_of {
            excluded.extend(self.parts.store.turns_in_context(session).await?);
        }
        let (vector, ()) = tokio::join!(self.query_vector(query), self.index_first());
        let (vector, problem) = match vector {
            Ok(vector) => (vector, None),
            Err(failure) => (None, Some(failure.message)),
        };
        let has_vector = vector.is_some();
        let found = self.parts.store.find(MemoryQuery {
            text: query.to_owned(),
            vector,
            scopes: scopes.clone(),
            kinds: options.kinds,
            since: options.since,
            until: options.until,
            limit: CANDIDATES,
        });
        let found = found.await?;
        let rows: HashMap<i64, &MemoryRow> = found.rows.iter().map(|row| (row.n, row)).collect();
        let vectors = has_vector.then_some(found.vectors.as_slice());
        let words_lead = has_vector && self::words_lead(query, &found, &rows);
        let mut ranked = fuse(Some(&found.words), vectors, words_lead);
        let now = self.parts.clock.now_ms();
        #[expect(clippy::cast_precision_loss, reason = "an age in milliseconds")]
        let age = |n| rows.get(&n).map_or(0.0, |row| now.saturating_sub(row.created_at) as f64);
        prefer_new(&mut ranked, self.parts.options.half_life_ms, age);
        let mut facts = HashSet::new();
        ranked.retain(|hit| {
            let Some(row) = rows.get(&hit.n) else { return false };
            let is_excluded = row.turn_id.as_ref().is_some_and(|turn| excluded.contains(turn));
            // A long fact has several chunks.
            let is_first = row.fact.as_ref().is_none_or(|fact| facts.insert(fact.id.as_str()));
            hit.score >= least && !is_excluded && is_first
        });
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let ranked = distinct(ranked, most, |n| rows.get(&n).map(|row| row.text.as_str()));
        let facts: Vec<MemoryFact> = ranked
            .iter()
            .filter_map(|hit| rows.get(&hit.n)?.fact.clone().filter(may_conflict))
            .collect();
        let mut alike = match facts.is_empty() {
            true => Vec::new(),
            false => self.parts.store.alike(facts, scopes).await?,
        }
        .into_iter();
        let mut hits = Vec::new();
        for hit in ranked {
            let Some(row) = rows.get(&hit.n) else { continue };
            let compared = row.fact.as_ref().filter(|fact| may_conflict(fact));
            let conflicts = compared.and_then(|_| alike.next()).unwrap_or_default();
            hits.push(MemoryHit {
                kind: row.kind,
                scope: row.scope.clone(),
                session_label: row.session_label.clone(),
                turn_id: row.turn_id.clone(),
                role: row.role.clone(),
                excerpt: row.text.clone(),
                created_at: row.created_at,
                score: hit.score,
                why: hit.why,
                fact: row.fact.clone(),
                conflicts,
            });
        }
        let embedder = self.parts.embedder.as_ref().filter(|_| has_vector);
        let model = embedder.map(|(_, options)| options.model.clone());
        Ok(MemoryHits { hits, model, problem })
    }

    /// What was said a moment ago is found. A turn that waits for a search does not wait long for that: the rest is found by the next one.
    async fn index_first(self: &Arc<Self>) {
        let (done, indexed) = tokio::sync::oneshot::channel::<()>();
        let memory = Arc::clone(self);
        self.parts.tasks.spawn(async move {
            // An error is that of the indexer, which tries again.
            let _ = memory.index_pending().await;
            drop(done);
        });
        let _ = tokio::time::timeout(INDEX_TIME, indexed).await;
    }

    /// What a context gets for a query: the lines, and the hits that are in them, with the conflicts that are.
    pub(crate) async fn context(
        self: &Arc<Self>,
        query: &str,
        options: MemorySearchOptions,
        tokens: usize,
    ) -> Result<(String, MemoryHits), EngineError> {
        let found = self.search(query, options).await?;
        let RememberedContext { text, hits } =
            lines(found.hits, ContextBudget { tokens }, base::clock::date);
        Ok((text, MemoryHits { hits, ..found }))
    }
}

/// Whether the words of a query lead, by the first hits that have some.
fn words_lead(query: &str, found: &MemoryFound, rows: &HashMap<i64, &MemoryRow>) -> bool {
    let first = found.words.iter().take(LOOKED_AT).filter_map(|it| rows.get(&it.n));
    let texts: Vec<String> = first.map(|row| search_words(&row.text)).collect();
    let hits: Vec<HashSet<&str>> =
        texts.iter().map(|text| text.split_ascii_whitespace().collect()).collect();
    let query = search_words(query);
    rank::words_lead(&query.split_ascii_whitespace().collect(), &hits)
}

/// Whether others of its type about its entity contradict a fact. Each observation of a tool is about what was asked.
fn may_conflict(fact: &MemoryFact) -> bool {
    fact.r#type != OBSERVATION
}
