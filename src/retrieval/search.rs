//! A search: the vector of the query, the two lists of the store, and the hits they are joined to. It must never show what the scopes
//! of the search do not have.

use std::collections::{HashMap, HashSet};

use super::service::Memory;
use base::error::EngineError;
use memory::assemble::{ContextBudget, RememberedContext, lines};
use memory::rank::{distinct, fuse, prefer_new};
use model::{
    InputError, MemoryFact, MemoryHit, MemoryHits, MemoryQuery, MemoryRow, MemoryScope,
    MemorySearchOptions,
};

/// The candidates of each list.
const CANDIDATES: usize = 100;
const LIMIT: u32 = 10;
const MOST: u32 = 100;
/// The most bytes of a query: more words find no more.
const MOST_QUERY: usize = 8_192;

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
        &self,
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
        // What was said a moment ago is found; an error is that of the indexer, which tries again.
        let _ = self.index_pending().await;
        let query = clipped(query);
        let mut excluded: HashSet<String> = options.exclude_turns.into_iter().collect();
        if let Some(session) = options.exclude_context_of {
            excluded.extend(self.parts.store.turns_in_context(session).await?);
        }
        let (vector, problem) = match self.query_vector(query).await {
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
        let mut ranked = fuse(Some(&found.words), has_vector.then_some(found.vectors.as_slice()));
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
        let facts: Vec<MemoryFact> =
            ranked.iter().filter_map(|hit| rows.get(&hit.n)?.fact.clone()).collect();
        let mut alike = match facts.is_empty() {
            true => Vec::new(),
            false => self.parts.store.alike(facts, scopes).await?,
        }
        .into_iter();
        let mut hits = Vec::new();
        for hit in ranked {
            let Some(row) = rows.get(&hit.n) else { continue };
            let conflicts = row.fact.as_ref().and_then(|_| alike.next()).unwrap_or_default();
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

    /// What a context gets for a query: the lines, and the hits that are in them.
    pub(crate) async fn context(
        &self,
        query: &str,
        options: MemorySearchOptions,
        tokens: usize,
    ) -> Result<(RememberedContext, MemoryHits), EngineError> {
        let mut found = self.search(query, options).await?;
        let context = lines(&found.hits, ContextBudget { tokens }, base::clock::date);
        let mut position = 0;
        found.hits.retain(|_| {
            position += 1;
            context.used.contains(&(position - 1))
        });
        Ok((context, found))
    }
}

/// The beginning of a long query.
fn clipped(query: &str) -> &str {
    let mut end = query.len().min(MOST_QUERY);
    while !query.is_char_boundary(end) {
        end -= 1;
    }
    query.get(..end).unwrap_or(query)
}
