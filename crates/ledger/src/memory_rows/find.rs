//! The two lists of a search: chunks with words of the query, the best first by their weight, and chunks whose vectors are closest.
//!
//! Scopes, kinds and times are part of each search: what does not match takes no place in a list. It must never join the lists.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::memory_rows::code_cache::{CodeCache, VectorLabel, kind_bit};
use crate::memory_rows::{chunk_rows, fact_rows, scope_rows};
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use base::words;
use memory::vectors::vector::{dot, read_bytes};
use model::{MemoryCandidate, MemoryFound, MemoryKind, MemoryQuery, MemoryRow};

/// The candidates of the codes that are ranked by their vectors.
const RANKED_EXACTLY: usize = 128;
/// How close a vector must be for its chunk to be a hit: at least this share of the closest one. Others would only push hits by words.
const CLOSE: f32 = 0.7;
/// Up to so many chunks every word of a query is searched for. In a larger memory, the words that most chunks have are left out.
const SMALL: i64 = 10_000;
/// The chunks that the words of a query may have together in a larger memory.
const MOST_MATCHES: i64 = 6_000;
/// Words of a query that are searched for.
const MOST_TERMS: usize = 48;

/// By weight; the smaller, the better.
pub(crate) const BY_WORDS: &str = "SELECT w.rowid, -bm25(w.memory_words) FROM memory_words w CROSS JOIN memory_chunks c ON c.n = w.rowid
     WHERE w.memory_words MATCH ?1 AND (?2 IS NULL OR c.scope IN (SELECT value FROM json_each(?2)))
       AND (?3 IS NULL OR c.kind IN (SELECT value FROM json_each(?3)))
       AND c.created_at >= ?4 AND c.created_at < ?5 ORDER BY bm25(w.memory_words), w.rowid DESC LIMIT ?6";
pub(crate) const LAST: &str = "SELECT coalesce(max(n), 0) FROM memory_chunks";
pub(crate) const VECTOR: &str = "SELECT vector FROM memory_vectors WHERE n = ?1 AND chunk = ?2";
const MATCHES: &str =
    "SELECT count(*) FROM (SELECT 1 FROM memory_words WHERE memory_words MATCH ?1 LIMIT ?2)";
const SEARCHING: &str = "search the memory";

/// The best of each list.
pub(crate) fn find(
    connection: &Connection,
    codes: &CodeCache,
    query: &MemoryQuery,
) -> Stored<MemoryFound> {
    let scopes = match &query.scopes {
        Some(scopes) => Some(scope_rows::numbers(connection, scopes)?),
        None => None,
    };
    if scopes.as_ref().is_some_and(Vec::is_empty) {
        return Ok(MemoryFound::default());
    }
    let mut found = MemoryFound {
        words: by_words(connection, query, scopes.as_deref())?,
        vectors: by_vectors(connection, codes, query, scopes.as_deref())?,
        rows: Vec::new(),
    };
    let mut rows = HashMap::new();
    for MemoryCandidate { n, .. } in found.words.iter().chain(&found.vectors) {
        if !rows.contains_key(n) {
            rows.insert(*n, chunk(connection, *n)?);
        }
    }
    let is_there = |it: &MemoryCandidate| rows.get(&it.n).is_some_and(Option::is_some);
    found.words.retain(is_there);
    found.vectors.retain(is_there);
    found.rows = rows.into_values().flatten().collect();
    Ok(found)
}

/// The chunk with that number; `None` if it is gone or damaged.
fn chunk(connection: &Connection, n: i64) -> Stored<Option<MemoryRow>> {
    let row =
        sql::first(connection, &chunk_rows::CHUNK, (n,), "read a chunk of the memory", |fields| {
            let row: chunk_rows::ChunkColumns<'_> = fields.next()?;
            let (kind, id): (String, String) = fields.next()?;
            let kind = (scope_rows::scope_of(&kind, id)?, MemoryKind::of_name(row.kind));
            let (scope, Some(kind)) = kind else {
                return Err(damaged("a chunk of the memory has no kind that is known"));
            };
            let row_of = MemoryRow {
                n,
                kind,
                scope,
                session_label: row.session_label.map(ToOwned::to_owned),
                turn_id: row.turn_id.map(ToOwned::to_owned),
                role: row.role.map(ToOwned::to_owned),
                text: row.text.to_owned(),
                created_at: row.created_at,
                fact: None,
            };
            Ok((row_of, row.fact_id.map(ToOwned::to_owned)))
        })?;
    let Some((row, fact_id)) = row else { return Ok(None) };
    let fact = match fact_id {
        Some(id) => match fact_rows::fact(connection, &id)? {
            Some(fact) => Some(fact),
            None => return Ok(None),
        },
        None => None,
    };
    Ok(Some(MemoryRow { fact, ..row }))
}

fn by_words(
    connection: &Connection,
    query: &MemoryQuery,
    scopes: Option<&[i64]>,
) -> Stored<Vec<MemoryCandidate>> {
    let Some(terms) = terms(connection, &query.text)? else { return Ok(Vec::new()) };
    let kinds = query.kinds.as_ref().map(|kinds| {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        serde_json::to_string(&names).unwrap_or_else(|_| "[]".to_owned())
    });
    let values = (
        terms,
        scopes.map(fact_rows::as_json),
        kinds,
        query.since.unwrap_or(i64::MIN),
        query.until.unwrap_or(i64::MAX),
        i64::try_from(query.limit).unwrap_or(i64::MAX),
    );
    let found: Vec<(i64, f64)> = sql::all(connection, BY_WORDS, values, SEARCHING)?;
    Ok(found.into_iter().map(|(n, score)| MemoryCandidate { n, score: score.max(0.0) }).collect())
}

/// The query of FTS5 for any of the words. In a large memory the rarest words, which weigh the most.
fn terms(connection: &Connection, text: &str) -> Stored<Option<String>> {
    let Some(mut wanted) = words::wanted(text) else { return Ok(None) };
    wanted.truncate(MOST_TERMS);
    let mut terms: Vec<String> = wanted.singly().map(|term| term.query()).collect();
    terms.sort_unstable();
    terms.dedup();
    let last: i64 = sql::one(connection, LAST, (), SEARCHING)?;
    if last > SMALL {
        let mut counted = Vec::new();
        for term in terms {
            let matches: i64 = sql::one(connection, MATCHES, (&term, MOST_MATCHES + 1), SEARCHING)?;
            counted.push((matches, term));
        }
        counted.sort_unstable();
        let mut left = MOST_MATCHES;
        terms = Vec::new();
        for (matches, term) in counted.into_iter().filter(|(matches, _)| *matches > 0) {
            left -= matches;
            if left < 0 && !terms.is_empty() {
                break;
            }
            terms.push(term);
        }
    }
    Ok((!terms.is_empty()).then(|| terms.join(" OR ")))
}

fn by_vectors(
    connection: &Connection,
    codes: &CodeCache,
    query: &MemoryQuery,
    scopes: Option<&[i64]>,
) -> Stored<Vec<MemoryCandidate>> {
    let Some((model, wanted)) = &query.vector else { return Ok(Vec::new()) };
    let kinds = query
        .kinds
        .as_ref()
        .map_or(u8::MAX, |kinds| kinds.iter().fold(0, |bits, kind| bits | kind_bit(kind.as_str())));
    let (since, until) = (query.since.unwrap_or(i64::MIN), query.until.unwrap_or(i64::MAX));
    let accepts = |label: &VectorLabel| {
        scopes.is_none_or(|scopes| scopes.contains(&label.scope))
            && label.kind & kinds != 0
            && (since..until).contains(&label.created_at)
    };
    let most = RANKED_EXACTLY.max(query.limit);
    let candidates = codes.closest(connection, (*model, wanted), most, accepts)?;
    let mut vector = vec![0.0; wanted.len()];
    let mut ranked = Vec::with_capacity(candidates.len());
    for label in candidates {
        let product =
            sql::first(connection, VECTOR, (label.n, label.chunk), SEARCHING, |fields| {
                let bytes: &[u8] = fields.next()?;
                Ok(read_bytes(bytes, &mut vector).then(|| dot(&vector, wanted)))
            })?;
        if let Some(product) = product.flatten() {
            ranked.push((product, label.chunk));
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    ranked.truncate(query.limit);
    let least = ranked.first().map_or(0.0, |(best, _)| best * CLOSE).max(f32::MIN_POSITIVE);
    ranked.retain(|(product, _)| *product >= least);
    let candidate = |(product, n)| MemoryCandidate { n, score: f64::from(product) };
    Ok(ranked.into_iter().map(candidate).collect())
}
