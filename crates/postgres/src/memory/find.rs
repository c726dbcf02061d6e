//! The two lists of a search: chunks with words of the query, the best first by their weight, and chunks whose vectors are closest.
//!
//! Scopes, kinds and times are part of each search: what does not match takes no place in a list. It must never join the lists.

use std::collections::HashMap;

use base::words::wanted;
use memory::vectors::vector::{dot, read_bytes};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::{Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::memory::code_cache::Label;
use crate::memory::{chunks, codes, facts, pgvector};
use crate::rows::turn_read::get;
use model::{MemoryCandidate, MemoryFound, MemoryKind, MemoryQuery, MemoryRow};

/// The candidates of the codes that are ranked by their vectors.
const RANKED_EXACTLY: usize = 128;
/// How close a vector must be for its chunk to be a hit: at least this share of the closest one.
const CLOSE: f32 = 0.7;
/// The chunks that the words of a query may have together: the words that most chunks have are left out.
const MOST_MATCHES: i64 = 6_000;
/// Words of a query that are searched for.
const MOST_TERMS: usize = 48;
const SEARCHING: &str = "search the memory";

/// The best of each list.
pub(crate) async fn find(server: &Server, query: &MemoryQuery) -> Stored<MemoryFound> {
    let scopes = chunks::scopes(server, query.scopes.as_deref()).await?;
    if scopes.as_ref().is_some_and(Vec::is_empty) {
        return Ok(MemoryFound::default());
    }
    let mut found = MemoryFound {
        words: by_words(server, query, &scopes).await?,
        vectors: by_vectors(server, query, &scopes).await?,
        rows: Vec::new(),
    };
    let all: Vec<i64> = found.words.iter().chain(&found.vectors).map(|it| it.n).collect();
    found.rows = rows(server, &all).await?;
    let is_there = |it: &MemoryCandidate| found.rows.iter().any(|row| row.n == it.n);
    let (words, vectors) = (found.words, found.vectors);
    found.words = words.into_iter().filter(is_there).collect();
    found.vectors = vectors.into_iter().filter(is_there).collect();
    Ok(found)
}

/// The chunks with these numbers that are there still.
async fn rows(server: &Server, all: &[i64]) -> Stored<Vec<MemoryRow>> {
    let text = "select c.n, c.kind, s.kind as scope_kind, s.id as scope_id, c.session_label, c.turn_id, c.role, c.fact_id, c.text,
         c.created_at from @memory_chunks c join @memory_scopes s on s.n = c.scope where c.n = any($1)";
    let found = server.rows(SEARCHING, text, &[(&all, Type::INT8_ARRAY)]).await?;
    let ids: Vec<String> = found
        .iter()
        .filter_map(|row| get::<Option<String>>(row, "fact_id").transpose())
        .collect::<Stored<_>>()?;
    let mut known = HashMap::new();
    if !ids.is_empty() {
        for fact in facts::of_ids(server, &ids).await? {
            known.insert(fact.id.clone(), fact);
        }
    }
    let mut rows = Vec::new();
    for row in &found {
        let fact_id: Option<&str> = get(row, "fact_id")?;
        let fact = fact_id.and_then(|id| known.get(id).cloned());
        if fact_id.is_some() && fact.is_none() {
            continue;
        }
        rows.push(MemoryRow { fact, ..chunk(row)? });
    }
    Ok(rows)
}

fn chunk(row: &Row) -> Stored<MemoryRow> {
    Ok(MemoryRow {
        n: get(row, "n")?,
        kind: MemoryKind::of_name(get(row, "kind")?)
            .ok_or_else(|| damaged("a chunk of the memory has no kind that is known"))?,
        scope: chunks::scope_of(get(row, "scope_kind")?, get(row, "scope_id")?)?,
        session_label: get(row, "session_label")?,
        turn_id: get(row, "turn_id")?,
        role: get(row, "role")?,
        text: get(row, "text")?,
        created_at: get(row, "created_at")?,
        fact: None,
    })
}

/// By weight: a rare word weighs more, and a word of a short chunk.
async fn by_words(
    server: &Server,
    query: &MemoryQuery,
    scopes: &Option<Vec<i64>>,
) -> Stored<Vec<MemoryCandidate>> {
    let Some(mut wanted) = wanted(&query.text) else { return Ok(Vec::new()) };
    wanted.truncate(MOST_TERMS);
    let mut terms: Vec<String> = wanted.singly().map(|term| term.tsquery()).collect();
    terms.sort_unstable();
    terms.dedup();
    let text = "with counted as (
         select q::tsquery as q, (select count(*) from (select from @memory_chunks where words @@ q::tsquery limit $7 + 1) m) as df
         from unnest($1::text[]) q),
       terms as (
         select q, df, row_number() over (order by df, q::text) as at, sum(df) over (order by df, q::text) as all_of_them
         from counted where df > 0),
       size as (select greatest(coalesce(max(n), 1), 1)::float8 as n from @memory_chunks)
       select c.n, sum(ln(1 + (greatest(size.n, t.df) - t.df + 0.5) / (t.df + 0.5)) / (0.5 + length(c.words) / 60.0))::float8 as score
       from terms t cross join size join @memory_chunks c on c.words @@ t.q
       where (t.at = 1 or t.all_of_them <= $7) and ($2::bigint[] is null or c.scope = any($2))
         and ($3::text[] is null or c.kind = any($3)) and c.created_at >= $4 and c.created_at < $5
       group by c.n
       order by score desc, c.n desc
       limit $6";
    let kinds: Option<Vec<&str>> =
        query.kinds.as_ref().map(|kinds| kinds.iter().map(|kind| kind.as_str()).collect());
    let (since, until) = (query.since.unwrap_or(i64::MIN), query.until.unwrap_or(i64::MAX));
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let params: [Param<'_>; 7] = [
        (&terms, Type::TEXT_ARRAY),
        (scopes, Type::INT8_ARRAY),
        (&kinds, Type::TEXT_ARRAY),
        (&since, Type::INT8),
        (&until, Type::INT8),
        (&limit, Type::INT8),
        (&MOST_MATCHES, Type::INT8),
    ];
    let found = server.rows(SEARCHING, text, &params).await?;
    let candidate = |row| Ok(MemoryCandidate { n: get(row, "n")?, score: get(row, "score")? });
    found.iter().map(candidate).collect()
}

async fn by_vectors(
    server: &Server,
    query: &MemoryQuery,
    scopes: &Option<Vec<i64>>,
) -> Stored<Vec<MemoryCandidate>> {
    let Some((model, wanted)) = &query.vector else { return Ok(Vec::new()) };
    let (since, until) = (query.since.unwrap_or(i64::MIN), query.until.unwrap_or(i64::MAX));
    let (within, kinds) = (scopes.clone(), query.kinds.clone());
    let accepts = move |label: &Label| {
        within.as_ref().is_none_or(|scopes| scopes.contains(&label.scope))
            && kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|it| it.as_str() == label.kind))
            && (since..until).contains(&label.created_at)
    };
    let most = RANKED_EXACTLY.max(query.limit);
    let indexed = pgvector::closest(server, (*model, wanted), most, (query, scopes)).await;
    let candidates = match indexed {
        Some(candidates) => candidates,
        None => codes::closest(server, (*model, wanted), most, accepts).await?,
    };
    let text = "select chunk, vector from @memory_vectors where model = $1 and chunk = any($2)";
    let of: [Param<'_>; 2] = [(model, Type::INT8), (&candidates, Type::INT8_ARRAY)];
    let mut vector = vec![0.0; wanted.len()];
    let mut ranked: Vec<(f32, i64)> = Vec::with_capacity(candidates.len());
    for row in &server.rows(SEARCHING, text, &of).await? {
        if read_bytes(get(row, "vector")?, &mut vector) {
            ranked.push((dot(&vector, wanted), get(row, "chunk")?));
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    ranked.truncate(query.limit);
    let least = ranked.first().map_or(0.0, |(best, _)| best * CLOSE).max(f32::MIN_POSITIVE);
    ranked.retain(|(product, _)| *product >= least);
    let candidate = |(product, n)| MemoryCandidate { n, score: f64::from(product) };
    Ok(ranked.into_iter().map(candidate).collect())
}
