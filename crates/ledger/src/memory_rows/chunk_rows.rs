//! The rows of `memory_chunks`, each with its words in `memory_words`. A chunk must never be written or deleted without its words.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::sqlite::checksum::{insert_all, is_whole};
use crate::sqlite::columns::{columns, list_of};
use crate::sqlite::error::Stored;
use crate::sqlite::functions::words_of;
use crate::sqlite::sql;

/// A row of `memory_chunks`, apart from its number.
pub(crate) struct ChunkColumns<'r> {
    pub(crate) kind: &'r str,
    pub(crate) scope: i64,
    pub(crate) session_label: Option<&'r str>,
    pub(crate) turn_id: Option<&'r str>,
    pub(crate) part: Option<i64>,
    pub(crate) role: Option<&'r str>,
    pub(crate) fact_id: Option<&'r str>,
    pub(crate) text: &'r str,
    pub(crate) created_at: i64,
}

columns!(for<'r> ChunkColumns<'r> {
    kind,
    scope,
    session_label,
    turn_id,
    part,
    role,
    fact_id,
    text,
    created_at,
});

static ADD: LazyLock<String> =
    LazyLock::new(|| format!("{} RETURNING n", insert_all::<ChunkColumns<'_>>("memory_chunks")));
pub(crate) static CHUNK: LazyLock<String> = LazyLock::new(|| {
    let (columns, whole) = (list_of::<ChunkColumns<'_>>("c"), is_whole("memory_chunks", "c"));
    let scope = is_whole("memory_scopes", "s");
    format!(
        "SELECT {columns}, s.kind, s.id FROM memory_chunks c CROSS JOIN memory_scopes s ON s.n = c.scope
         WHERE c.n = ?1 AND {whole} AND {scope}"
    )
});
pub(crate) const OF_TURN: &str = "SELECT n, text FROM memory_chunks WHERE turn_id = ?1";
pub(crate) const OF_FACT: &str = "SELECT n, text FROM memory_chunks WHERE fact_id = ?1";
pub(crate) const OF_SESSION: &str = "SELECT n, text FROM memory_chunks WHERE session_label = ?1";

/// Writes a chunk with its words.
pub(crate) fn add(connection: &Connection, row: &ChunkColumns<'_>) -> Stored<()> {
    let doing = "write a chunk of the memory";
    let values = crate::sqlite::columns::values(row);
    let n: i64 = sql::one(connection, &ADD, rusqlite::params_from_iter(values), doing)?;
    let words = words_of(row.text);
    if words.is_empty() {
        return Ok(());
    }
    let index = "INSERT INTO memory_words (rowid, words) VALUES (?1, ?2)";
    sql::exec(connection, index, (n, words), doing).map(drop)
}

/// Deletes the chunks that `select` finds for `of`, with their words and vectors. Returns how many.
pub(crate) fn delete(connection: &Connection, select: &str, of: &str) -> Stored<u64> {
    let doing = "delete chunks of the memory";
    let found: Vec<(i64, String)> = sql::all(connection, select, (of,), doing)?;
    for (n, text) in &found {
        let words = words_of(text);
        if !words.is_empty() {
            // The index has no text: what it has to forget is passed.
            let forget =
                "INSERT INTO memory_words (memory_words, rowid, words) VALUES ('delete', ?1, ?2)";
            sql::exec(connection, forget, (n, words), doing)?;
        }
        sql::exec(connection, "DELETE FROM memory_vectors WHERE chunk = ?1", (n,), doing)?;
        sql::exec(connection, "DELETE FROM memory_skipped WHERE chunk = ?1", (n,), doing)?;
        sql::exec(connection, "DELETE FROM memory_chunks WHERE n = ?1", (n,), doing)?;
    }
    if !found.is_empty() {
        let changed = "UPDATE memory_state SET generation = generation + 1 WHERE id = 1";
        sql::exec(connection, changed, (), doing)?;
    }
    Ok(found.len() as u64)
}
