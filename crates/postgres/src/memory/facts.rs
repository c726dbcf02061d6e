//! The rows of `memory_facts`. A fact that holds has its chunks; one that was superseded is not found any more, and listed.
//!
//! The content of a fact must never be changed.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::memory::chunks::{self, Chunk};
use crate::queue::transaction::Transaction;
use crate::rows::turn_read::get;
use model::{
    ExtractedFact, FactFilter, FactInput, MemoryFact, MemoryScope, Page, StorageError,
    StorageErrorKind,
};

const SELECT: &str = "select f.n, f.valid_to, f.superseded_by, f.body from @memory_facts f";
const READING: &str = "read facts";

fn read(row: &Row) -> Stored<MemoryFact> {
    let fact: MemoryFact = serde_json::from_str(get(row, "body")?)
        .map_err(|_| damaged("a fact is not as it was written"))?;
    Ok(MemoryFact {
        valid_to: get(row, "valid_to")?,
        superseded_by: get(row, "superseded_by")?,
        ..fact
    })
}

/// The facts with those ids.
pub(crate) async fn of_ids(server: &Server, ids: &[String]) -> Stored<Vec<MemoryFact>> {
    let text = format!("{SELECT} where f.id = any($1)");
    server.rows(READING, &text, &[(&ids, Type::TEXT_ARRAY)]).await?.iter().map(read).collect()
}

/// For each of the facts, those of the same type about the same entity that hold as well.
pub(crate) async fn alike(
    server: &Server,
    facts: &[MemoryFact],
    scopes: Option<&[MemoryScope]>,
) -> Stored<Vec<Vec<MemoryFact>>> {
    let scopes = chunks::scopes(server, scopes).await?;
    let text = format!(
        "{SELECT} where lower(f.entity) = lower($1) and f.fact_type = $2 and f.valid_to is null and f.id <> $3
           and ($4::bigint[] is null or f.scope = any($4)) order by f.n desc limit 20"
    );
    let mut found = Vec::new();
    for fact in facts {
        let of: [Param<'_>; 4] = [
            (&fact.entity, Type::TEXT),
            (&fact.r#type, Type::TEXT),
            (&fact.id, Type::TEXT),
            (&scopes, Type::INT8_ARRAY),
        ];
        let rows = server.rows(READING, &text, &of).await?;
        found.push(rows.iter().map(read).collect::<Stored<_>>()?);
    }
    Ok(found)
}

/// Facts in the order in which they were stored.
pub(crate) async fn list(
    server: &Server,
    filter: &FactFilter,
    scopes: Option<&[MemoryScope]>,
) -> Stored<Page<MemoryFact, i64>> {
    let scopes = chunks::scopes(server, scopes).await?;
    let text = format!(
        "{SELECT} where f.n > $1 and ($2::bigint[] is null or f.scope = any($2)) and ($3::text is null or f.fact_type = $3)
           and ($4 or f.valid_to is null) and ($5::text is null or lower(f.entity) = lower($5)) and ($6::text is null or f.id = $6)
         order by f.n limit $7"
    );
    let (after, limit) = (filter.after.unwrap_or_default(), filter.limit.and_one());
    let params: [Param<'_>; 7] = [
        (&after, Type::INT8),
        (&scopes, Type::INT8_ARRAY),
        (&filter.r#type, Type::TEXT),
        (&filter.superseded, Type::BOOL),
        (&filter.entity, Type::TEXT),
        (&filter.id, Type::TEXT),
        (&limit, Type::INT8),
    ];
    let rows = server.rows(READING, &text, &params).await?;
    let found = rows.iter().map(|row| Ok((get(row, "n")?, read(row)?)));
    Ok(Page::cut(found.collect::<Stored<_>>()?, filter.limit))
}

/// Ends a fact where `by` begins; false if it does not hold, or does not belong where it must. It is listed, and not found any more.
async fn end(
    transaction: &Transaction<'_>,
    id: &str,
    by: &MemoryFact,
    within: Option<&MemoryScope>,
) -> Result<bool, Failure> {
    let text = "update @memory_facts set valid_to = $2, superseded_by = $3 where id = $1 and valid_to is null
       and ($4::text is null or scope = (select n from @memory_scopes where kind = $4 and id = $5))";
    let (kind, scope) = (within.map(|it| it.kind.as_str()), within.map(|it| it.id.as_str()));
    let of: [Param<'_>; 5] = [
        (&id, Type::TEXT),
        (&by.valid_from, Type::INT8),
        (&by.id, Type::TEXT),
        (&kind, Type::TEXT),
        (&scope, Type::TEXT),
    ];
    if transaction.exec(text, &of).await? == 0 {
        return Ok(false);
    }
    chunks::delete(transaction, "fact_id = $1", id).await?;
    Ok(true)
}

/// The fact that the same tool call has stored in place of another one, when it ran before.
async fn successor(
    transaction: &Transaction<'_>,
    id: &str,
    of: &MemoryFact,
) -> Result<Option<MemoryFact>, Failure> {
    let by =
        format!("{SELECT} where f.id = (select superseded_by from @memory_facts where id = $1)");
    let found = transaction.row(&by, &[(&id, Type::TEXT)]).await?;
    let found = found.map(|row| read(&row)).transpose()?;
    Ok(found.filter(|by| of.source.call_id.is_some() && by.source == of.source))
}

/// Stores a fact with its chunks, and ends the one that it supersedes.
///
/// # Errors
/// `unknown_fact` if that one does not hold, or does not belong where it must.
pub(crate) async fn store(
    transaction: &Transaction<'_>,
    input: &FactInput,
) -> Result<MemoryFact, Failure> {
    let FactInput { fact, texts, supersedes, within } = input;
    let scope = chunks::scope(transaction, &fact.scope).await?;
    let content = fact.content.get();
    if let Some(id) = supersedes {
        if !end(transaction, id, fact, within.as_ref()).await? {
            return successor(transaction, id, fact).await?.ok_or_else(|| unknown(id).into());
        }
    } else if fact.valid_to.is_none() {
        let same = format!(
            "{SELECT} where lower(f.entity) = lower($1) and f.fact_type = $2 and f.valid_to is null and f.scope = $3 and f.content = $4"
        );
        let of: [Param<'_>; 4] = [
            (&fact.entity, Type::TEXT),
            (&fact.r#type, Type::TEXT),
            (&scope, Type::INT8),
            (&content, Type::TEXT),
        ];
        if let Some(row) = transaction.row(&same, &of).await? {
            return Ok(read(&row)?);
        }
    }
    let add = "insert into @memory_facts (id, scope, entity, fact_type, turn_id, valid_to, superseded_by, body, content)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let body = serde_json::to_string(fact).map_err(|_| damaged("a fact has no JSON"))?;
    let params: [Param<'_>; 9] = [
        (&fact.id, Type::TEXT),
        (&scope, Type::INT8),
        (&fact.entity, Type::TEXT),
        (&fact.r#type, Type::TEXT),
        (&fact.source.turn_id, Type::TEXT),
        (&fact.valid_to, Type::INT8),
        (&fact.superseded_by, Type::TEXT),
        (&body, Type::TEXT),
        (&content, Type::TEXT),
    ];
    transaction.exec(add, &params).await?;
    for text in texts.iter().filter(|_| fact.valid_to.is_none()) {
        let chunk = Chunk {
            kind: "fact",
            scope,
            session_label: None,
            turn_id: None,
            part: None,
            role: None,
            fact_id: Some(&fact.id),
            text,
            created_at: fact.created_at,
        };
        chunks::add(transaction, &chunk).await?;
    }
    Ok(fact.clone())
}

/// Stores a fact that a model has found. One that is known is left out; one that replaces others ends those that are not newer and not
/// more certain.
pub(crate) async fn store_extracted(
    transaction: &Transaction<'_>,
    found: &ExtractedFact,
) -> Result<(), Failure> {
    let ExtractedFact { input, replaces } = found;
    let fact = &input.fact;
    let scope = chunks::scope(transaction, &fact.scope).await?;
    let of_subject = format!(
        "{SELECT} where f.scope = $1 and lower(f.entity) = lower($2) and f.fact_type = $3 and f.valid_to is null order by f.n"
    );
    let of: [Param<'_>; 3] =
        [(&scope, Type::INT8), (&fact.entity, Type::TEXT), (&fact.r#type, Type::TEXT)];
    let known = transaction.rows(&of_subject, &of).await?;
    let known: Vec<MemoryFact> = known.iter().map(read).collect::<Stored<_>>()?;
    let says = |fact: &MemoryFact| fact.content.get().to_lowercase();
    if known.iter().any(|other| says(other) == says(fact)) {
        return Ok(());
    }
    if *replaces && let Some(newer) = known.iter().find(|it| it.valid_from > fact.valid_from) {
        // A turn of earlier: it is listed as what held then.
        let ended = MemoryFact {
            valid_to: Some(newer.valid_from),
            superseded_by: Some(newer.id.clone()),
            ..fact.clone()
        };
        let input = FactInput { fact: ended, texts: Vec::new(), supersedes: None, within: None };
        return store(transaction, &input).await.map(drop);
    }
    store(transaction, input).await?;
    for other in known.iter().filter(|other| *replaces && other.confidence <= fact.confidence) {
        end(transaction, &other.id, fact, None).await?;
    }
    Ok(())
}

/// The error for a fact that is not there or does not hold.
fn unknown(id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownFact,
        format!("the memory has no fact `{id}` that holds; pass an id that `facts()` lists"),
    )
}
