//! The rows of `memory_chunks` with their words, and the numbers of scopes. It must never decide a scope.

use base::words::search_words;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::queue::transaction::Transaction;
use crate::rows::turn_read::get;
use model::{MemoryScope, MemoryScopeKind};

/// A new chunk.
pub(crate) struct Chunk<'a> {
    pub(crate) kind: &'a str,
    pub(crate) scope: i64,
    pub(crate) session_label: Option<&'a str>,
    pub(crate) turn_id: Option<&'a str>,
    pub(crate) part: Option<i32>,
    pub(crate) role: Option<&'a str>,
    pub(crate) fact_id: Option<&'a str>,
    pub(crate) text: &'a str,
    pub(crate) created_at: i64,
}

/// Nobody else writes to the memory until the transaction ends.
pub(crate) async fn lock(transaction: &Transaction<'_>) -> Result<(), Failure> {
    transaction.lock("memory").await
}

/// Writes a chunk with its words.
pub(crate) async fn add(transaction: &Transaction<'_>, chunk: &Chunk<'_>) -> Result<(), Failure> {
    let text = "insert into @memory_chunks (kind, scope, session_label, turn_id, part, role, fact_id, text, created_at, words)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, array_to_tsvector(array_remove(string_to_array($10, ' '), '')))";
    let words = search_words(chunk.text);
    let params: [Param<'_>; 10] = [
        (&chunk.kind, Type::TEXT),
        (&chunk.scope, Type::INT8),
        (&chunk.session_label, Type::TEXT),
        (&chunk.turn_id, Type::TEXT),
        (&chunk.part, Type::INT4),
        (&chunk.role, Type::TEXT),
        (&chunk.fact_id, Type::TEXT),
        (&chunk.text, Type::TEXT),
        (&chunk.created_at, Type::INT8),
        (&words, Type::TEXT),
    ];
    transaction.exec(text, &params).await.map(drop)
}

/// Deletes the chunks for which `condition` holds of `of`, with their words and vectors. Returns how many.
pub(crate) async fn delete(
    transaction: &Transaction<'_>,
    condition: &str,
    of: &str,
) -> Result<u64, Failure> {
    let text = format!("delete from @memory_chunks where {condition}");
    let deleted = transaction.exec(&text, &[(&of, Type::TEXT)]).await?;
    if deleted > 0 {
        self::deleted(transaction).await?;
    }
    Ok(deleted)
}

/// Notes that vectors are gone, for the processes that hold them. With the transaction: before its end the vectors are still there for others.
pub(crate) async fn deleted(transaction: &Transaction<'_>) -> Result<(), Failure> {
    transaction.exec("update @memory_state set generation = generation + 1", &[]).await.map(drop)
}

/// The number of a scope, which is stored if it is new.
pub(crate) async fn scope(
    transaction: &Transaction<'_>,
    scope: &MemoryScope,
) -> Result<i64, Failure> {
    let kind = scope.kind.as_str();
    let of: [Param<'_>; 2] = [(&kind, Type::TEXT), (&scope.id, Type::TEXT)];
    let known = "select n from @memory_scopes where kind = $1 and id = $2";
    if let Some(row) = transaction.row(known, &of).await? {
        return Ok(get(&row, "n")?);
    }
    let add = "insert into @memory_scopes (kind, id) values ($1, $2) returning n";
    let row = transaction.row(add, &of).await?;
    Ok(get(&row.ok_or_else(|| damaged("a scope of the memory has no number"))?, "n")?)
}

/// The numbers of the scopes that something is in; `None` for all.
pub(crate) async fn scopes(
    server: &Server,
    scopes: Option<&[MemoryScope]>,
) -> Stored<Option<Vec<i64>>> {
    let Some(scopes) = scopes else { return Ok(None) };
    let kinds: Vec<&str> = scopes.iter().map(|scope| scope.kind.as_str()).collect();
    let ids: Vec<&str> = scopes.iter().map(|scope| scope.id.as_str()).collect();
    let text = "select n from @memory_scopes where (kind, id) in (select * from unnest($1::text[], $2::text[]))";
    let of: [Param<'_>; 2] = [(&kinds, Type::TEXT_ARRAY), (&ids, Type::TEXT_ARRAY)];
    let rows = server.rows("read the scopes of the memory", text, &of).await?;
    Ok(Some(rows.iter().map(|row| get(row, "n")).collect::<Stored<_>>()?))
}

/// The scope of a row that has its kind and its id.
pub(crate) fn scope_of(kind: &str, id: String) -> Stored<MemoryScope> {
    let kind = MemoryScopeKind::of_name(kind)
        .ok_or_else(|| damaged("a scope of the memory has no kind that is known"))?;
    Ok(MemoryScope { kind, id })
}
