//! The rows of `memory_models`, `memory_vectors` and `memory_skipped`: which chunks have no vector yet, and what became of them.
//!
//! It must never compare vectors of two models.

use rusqlite::Connection;

use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use memory::vectors::vector::to_bytes;
use model::{EmbeddedChunk, EmbeddingCost, UnembeddedChunk};

pub(crate) const MODEL: &str = "SELECT n FROM memory_models WHERE name = ?1 AND dimensions = ?2";
pub(crate) const UNEMBEDDED: &str = "SELECT n, text FROM memory_chunks
     WHERE n > (SELECT embedded_through FROM memory_models WHERE n = ?1) ORDER BY n LIMIT ?2";
pub(crate) const LEFT: &str = "SELECT count(*) FROM memory_chunks
     WHERE n > (SELECT embedded_through FROM memory_models WHERE n = ?1)";
const WRITING: &str = "write vectors of the memory";
const DELETING: &str = "delete vectors of the memory";

/// The number of a model, which is stored if it is new.
pub(crate) fn model(connection: &Connection, name: &str, dimensions: u32) -> Stored<i64> {
    let doing = "read the models of the memory";
    if let Some(n) = sql::optional(connection, MODEL, (name, dimensions), doing)? {
        return Ok(n);
    }
    let add = "INSERT INTO memory_models (name, dimensions, embedded_through, tokens, nanos, unpriced_tokens)
         VALUES (?1, ?2, 0, 0, 0, 0) RETURNING n";
    sql::one(connection, add, (name, dimensions), doing)
}

/// The next chunks without a vector of the model.
pub(crate) fn unembedded(
    connection: &Connection,
    model: i64,
    limit: usize,
) -> Stored<Vec<UnembeddedChunk>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let doing = "read chunks of the memory without a vector";
    let rows: Vec<(i64, String)> = sql::all(connection, UNEMBEDDED, (model, limit), doing)?;
    Ok(rows.into_iter().map(|(n, text)| UnembeddedChunk { n, text }).collect())
}

/// Deletes all vectors. Every chunk is embedded anew.
pub(crate) fn delete_all(connection: &Connection) -> Stored<()> {
    for change in [
        "DELETE FROM memory_vectors",
        "DELETE FROM memory_skipped",
        "UPDATE memory_models SET embedded_through = 0",
        "UPDATE memory_state SET generation = generation + 1 WHERE id = 1",
    ] {
        sql::exec(connection, change, (), DELETING)?;
    }
    Ok(())
}

/// Deletes the vectors of other models, once each chunk was embedded with this one. An engine that still embeds with another one makes its
/// vectors anew.
pub(crate) fn delete_former(connection: &Connection, model: i64) -> Stored<()> {
    if sql::one::<u64>(connection, LEFT, (model,), DELETING)? > 0 {
        return Ok(());
    }
    for change in [
        "DELETE FROM memory_vectors WHERE model <> ?1",
        "DELETE FROM memory_skipped WHERE model <> ?1",
        "UPDATE memory_models SET embedded_through = 0 WHERE n <> ?1",
    ] {
        sql::exec(connection, change, (model,), DELETING)?;
    }
    let changed = "UPDATE memory_state SET generation = generation + 1 WHERE id = 1";
    sql::exec(connection, changed, (), DELETING).map(drop)
}

/// Stores what became of chunks, and moves the cursor behind them.
pub(crate) fn embedded(
    connection: &Connection,
    model: i64,
    chunks: &[(i64, EmbeddedChunk)],
    cost: EmbeddingCost,
) -> Stored<()> {
    for (n, outcome) in chunks {
        match outcome {
            EmbeddedChunk::Vector(vector) => {
                let add = "INSERT OR IGNORE INTO memory_vectors (model, chunk, vector)
                     SELECT ?1, n, ?3 FROM memory_chunks WHERE n = ?2";
                sql::exec(connection, add, (model, n, to_bytes(vector)), WRITING)?;
            }
            EmbeddedChunk::Skipped(problem) => {
                let add = "INSERT OR REPLACE INTO memory_skipped (chunk, model, problem)
                     SELECT n, ?1, ?3 FROM memory_chunks WHERE n = ?2";
                sql::exec(connection, add, (model, n, problem), WRITING)?;
            }
        }
    }
    let through = chunks.last().map_or(0, |(n, _)| *n);
    let unpriced = if cost.nanos.is_some() { 0 } else { cost.tokens };
    let change = "UPDATE memory_models SET embedded_through = max(embedded_through, ?2), tokens = tokens + ?3,
         nanos = nanos + ?4, unpriced_tokens = unpriced_tokens + ?5 WHERE n = ?1";
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let values = (
        model,
        through,
        number(cost.tokens),
        number(cost.nanos.unwrap_or_default()),
        number(unpriced),
    );
    sql::exec(connection, change, values, WRITING).map(drop)
}
