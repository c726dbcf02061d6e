//! The rows of `memory_facts`. A fact that holds has its chunks; one that was superseded is not found any more, and listed.
//!
//! The content of a fact must never be changed.

use std::sync::LazyLock;

use rusqlite::Connection;
use serde_json::value::RawValue;

use crate::memory_rows::chunk_rows::{self, ChunkColumns};
use crate::memory_rows::scope_rows;
use crate::sqlite::checksum::{insert_all, is_whole, set};
use crate::sqlite::columns::{columns, list_of};
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::fields::Fields;
use crate::sqlite::sql;
use model::{
    FactFilter, FactInput, FactSource, MemoryFact, MemoryScope, Page, StorageError,
    StorageErrorKind,
};

struct FactColumns<'r> {
    id: &'r str,
    entity: &'r str,
    fact_type: &'r str,
    content_json: &'r str,
    scope: i64,
    turn_id: Option<&'r str>,
    call_id: Option<&'r str>,
    confidence: f64,
    valid_from: i64,
    valid_to: Option<i64>,
    superseded_by: Option<&'r str>,
    created_at: i64,
}

columns!(for<'r> FactColumns<'r> {
    id,
    entity,
    fact_type,
    content_json,
    scope,
    turn_id,
    call_id,
    confidence,
    valid_from,
    valid_to,
    superseded_by,
    created_at,
});

const READING: &str = "read facts";
const WRITING: &str = "write a fact";

fn facts_where(condition: &str) -> String {
    let (columns, whole) = (list_of::<FactColumns<'_>>("f"), is_whole("memory_facts", "f"));
    let scope = is_whole("memory_scopes", "s");
    format!(
        "SELECT {columns}, s.kind, s.id, f.n FROM memory_facts f CROSS JOIN memory_scopes s ON s.n = f.scope
         WHERE {whole} AND {scope} AND {condition}"
    )
}

pub(crate) static OF_ID: LazyLock<String> = LazyLock::new(|| facts_where("f.id = ?1"));
/// Facts of the same type about the same entity that hold, in some scopes.
pub(crate) static ALIKE: LazyLock<String> = LazyLock::new(|| {
    facts_where(
        "lower(f.entity) = lower(?1) AND f.fact_type = ?2 AND f.valid_to IS NULL
           AND (?3 IS NULL OR f.scope IN (SELECT value FROM json_each(?3))) ORDER BY f.n DESC LIMIT 20",
    )
});
/// The facts of the same type about the same entity that hold in a scope, whatever the case of its letters.
pub(crate) static OF_SUBJECT: LazyLock<String> = LazyLock::new(|| {
    facts_where(
        "f.scope = (SELECT n FROM memory_scopes WHERE kind = ?1 AND id = ?2) AND lower(f.entity) = lower(?3)
           AND f.fact_type = ?4 AND f.valid_to IS NULL",
    )
});
const LISTED: &str = "(?2 IS NULL OR f.scope IN (SELECT value FROM json_each(?2)))
     AND (?3 IS NULL OR f.fact_type = ?3) AND (?4 OR f.valid_to IS NULL) AND f.n > ?1";
pub(crate) static LIST: LazyLock<String> =
    LazyLock::new(|| facts_where(&format!("{LISTED} ORDER BY f.n LIMIT ?5")));
pub(crate) static LIST_OF_ENTITY: LazyLock<String> = LazyLock::new(|| {
    facts_where(&format!("{LISTED} AND lower(f.entity) = lower(?6) ORDER BY f.n LIMIT ?5"))
});
pub(crate) static LIST_OF_ID: LazyLock<String> =
    LazyLock::new(|| facts_where(&format!("{LISTED} AND f.id = ?6 LIMIT ?5")));
static ADD: LazyLock<String> = LazyLock::new(|| insert_all::<FactColumns<'_>>("memory_facts"));
static END: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("valid_to", "?2"), ("superseded_by", "?3")]);
    format!(
        "UPDATE memory_facts SET {change} WHERE id = ?1 AND valid_to IS NULL
           AND (?4 IS NULL OR scope = (SELECT n FROM memory_scopes WHERE kind = ?4 AND id = ?5))"
    )
});
pub(crate) const SAME: &str = "SELECT id FROM memory_facts INDEXED BY memory_facts_by_subject
     WHERE lower(entity) = lower(?1) AND fact_type = ?2 AND valid_to IS NULL AND scope = ?3 AND content_json = ?4";

fn read(fields: &mut Fields<'_>) -> Stored<(i64, MemoryFact)> {
    let row: FactColumns<'_> = fields.next()?;
    let (kind, scope_id): (String, String) = fields.next()?;
    let content = RawValue::from_string(row.content_json.to_owned())
        .map_err(|_| damaged("the content of a fact is not JSON"))?;
    let fact = MemoryFact {
        id: row.id.to_owned(),
        entity: row.entity.to_owned(),
        r#type: row.fact_type.to_owned(),
        content,
        scope: scope_rows::scope_of(&kind, scope_id)?,
        source: FactSource {
            turn_id: row.turn_id.map(ToOwned::to_owned),
            call_id: row.call_id.map(ToOwned::to_owned),
        },
        confidence: row.confidence,
        valid_from: row.valid_from,
        valid_to: row.valid_to,
        superseded_by: row.superseded_by.map(ToOwned::to_owned),
        created_at: row.created_at,
    };
    Ok((fields.next()?, fact))
}

/// The fact with that id.
pub(crate) fn fact(connection: &Connection, id: &str) -> Stored<Option<MemoryFact>> {
    Ok(sql::first(connection, &OF_ID, (id,), READING, read)?.map(|(_, fact)| fact))
}

/// The facts of the same type about the same entity as `fact` that hold as well.
pub(crate) fn alike(
    connection: &Connection,
    fact: &MemoryFact,
    scopes: Option<&str>,
) -> Stored<Vec<MemoryFact>> {
    let values = (&fact.entity, &fact.r#type, scopes);
    let found = sql::map(connection, &ALIKE, values, READING, read)?;
    Ok(found.into_iter().map(|(_, other)| other).filter(|other| other.id != fact.id).collect())
}

/// The facts that hold in the scope of `fact` about its entity and of its type.
pub(crate) fn of_subject(connection: &Connection, fact: &MemoryFact) -> Stored<Vec<MemoryFact>> {
    let MemoryScope { kind, id } = &fact.scope;
    let values = (kind.as_str(), id, &fact.entity, &fact.r#type);
    let found = sql::map(connection, &OF_SUBJECT, values, READING, read)?;
    Ok(found.into_iter().map(|(_, fact)| fact).collect())
}

/// Ends a fact where `by` begins; false if it does not hold, or does not belong where it must.
pub(crate) fn end(
    connection: &Connection,
    id: &str,
    by: &MemoryFact,
    within: Option<&MemoryScope>,
) -> Stored<bool> {
    let (kind, of) = (within.map(|scope| scope.kind.as_str()), within.map(|scope| &scope.id));
    Ok(sql::exec(connection, &END, (id, by.valid_from, &by.id, kind, of), WRITING)? > 0)
}

/// Facts in the order in which they were stored.
pub(crate) fn list(
    connection: &Connection,
    filter: &FactFilter,
    scopes: Option<&[MemoryScope]>,
) -> Stored<Page<MemoryFact, i64>> {
    let scopes = scopes.map(|scopes| scope_rows::numbers(connection, scopes)).transpose()?;
    let scopes = scopes.map(|numbers| as_json(&numbers));
    let (after, limit) = (filter.after.unwrap_or_default(), filter.limit.and_one());
    let found = match (&filter.id, &filter.entity) {
        (Some(id), _) => {
            let values = (after, scopes, &filter.r#type, filter.superseded, limit, id);
            let found = sql::map(connection, &LIST_OF_ID, values, READING, read)?;
            let is_of = |fact: &MemoryFact| {
                filter
                    .entity
                    .as_ref()
                    .is_none_or(|entity| entity.eq_ignore_ascii_case(&fact.entity))
            };
            found.into_iter().filter(|(_, fact)| is_of(fact)).collect()
        }
        (None, None) => {
            let values = (after, scopes, &filter.r#type, filter.superseded, limit);
            sql::map(connection, &LIST, values, READING, read)?
        }
        (None, Some(entity)) => {
            let values = (after, scopes, &filter.r#type, filter.superseded, limit, entity);
            sql::map(connection, &LIST_OF_ENTITY, values, READING, read)?
        }
    };
    Ok(Page::cut(found, filter.limit))
}

/// Numbers as a JSON array.
pub(crate) fn as_json(numbers: &[i64]) -> String {
    serde_json::to_string(numbers).unwrap_or_else(|_| "[]".to_owned())
}

/// Stores a fact with its chunks, and ends the one that it supersedes.
///
/// # Errors
/// `unknown_fact` if that one does not hold, or does not belong where it must; `ledger_moved`.
pub(crate) fn store(connection: &Connection, input: &FactInput) -> Stored<MemoryFact> {
    crate::sessions::moved::refuse(connection)?;
    let FactInput { fact, texts, supersedes, within } = input;
    let scope = scope_rows::number(connection, &fact.scope)?;
    if let Some(id) = supersedes {
        if !end(connection, id, fact, within.as_ref())? {
            return successor(connection, id, fact)?.ok_or_else(|| unknown(id));
        }
        // It is listed, and not found any more.
        chunk_rows::delete(connection, chunk_rows::OF_FACT, id)?;
    } else if fact.valid_to.is_none() {
        let values = (&fact.entity, &fact.r#type, scope, fact.content.get());
        let same: Option<String> = sql::optional(connection, SAME, values, WRITING)?;
        if let Some(same) = same
            && let Some(known) = self::fact(connection, &same)?
        {
            return Ok(known);
        }
    }
    let row = FactColumns {
        id: &fact.id,
        entity: &fact.entity,
        fact_type: &fact.r#type,
        content_json: fact.content.get(),
        scope,
        turn_id: fact.source.turn_id.as_deref(),
        call_id: fact.source.call_id.as_deref(),
        confidence: fact.confidence,
        valid_from: fact.valid_from,
        valid_to: fact.valid_to,
        superseded_by: fact.superseded_by.as_deref(),
        created_at: fact.created_at,
    };
    sql::insert(connection, &ADD, &row, WRITING)?;
    if fact.valid_to.is_none() {
        for text in texts {
            let chunk = ChunkColumns {
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
            chunk_rows::add(connection, &chunk)?;
        }
    }
    Ok(fact.clone())
}

/// The fact that the same tool call has stored in place of another one, when it ran before.
fn successor(connection: &Connection, id: &str, of: &MemoryFact) -> Stored<Option<MemoryFact>> {
    let by = fact(connection, id)?.and_then(|ended| ended.superseded_by);
    let Some(by) = by else { return Ok(None) };
    Ok(fact(connection, &by)?.filter(|by| of.source.call_id.is_some() && by.source == of.source))
}

/// The error for a fact that is not there or does not hold.
pub(crate) fn unknown(id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownFact,
        format!("the memory has no fact `{id}` that holds; pass an id that `facts()` lists"),
    )
}
