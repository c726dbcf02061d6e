//! The turns that are to be indexed: noted with their end, read with their texts, and replaced by their chunks in one transaction.
//!
//! A turn is indexed once, whatever ends meanwhile and whoever else does it. Tool results and reasoning are not indexed. It must never
//! index a turn that still runs.

use rusqlite::Connection;

use crate::memory_rows::chunk_rows::{self, ChunkColumns};
use crate::memory_rows::turn_texts::{self, TurnRow};
use crate::memory_rows::{extraction_rows, fact_rows, forget, scope_rows, vector_rows};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{IndexedTurn, MemoryKind, MemoryReindex, PENDING_BYTES, PendingTurn, Vectors};

pub(crate) const OLDEST: &str = "SELECT p.turn_id, t.n, t.session_label, t.turn_type = 'compaction'
     FROM memory_pending p CROSS JOIN turns t ON t.id = p.turn_id
     WHERE t.status NOT IN ('pending', 'streaming') ORDER BY p.turn_id LIMIT ?1";
const READING: &str = "read turns that the memory has not indexed";
const WRITING: &str = "index a turn in the memory";

/// Notes a turn that ends in this transaction, unless it was forgotten while it ran.
pub(crate) fn note(connection: &Connection, turn_id: &str) -> Stored<()> {
    let add = "INSERT OR IGNORE INTO memory_pending (turn_id) SELECT ?1
         WHERE NOT EXISTS (SELECT 1 FROM memory_forgotten WHERE kind = 'turn' AND id = ?1)";
    sql::exec(connection, add, (turn_id,), "note a turn for the memory").map(drop)
}

/// The oldest turns that are to be indexed.
pub(crate) fn oldest(
    connection: &Connection,
    limit: usize,
    with_calls: bool,
) -> Stored<Vec<PendingTurn>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    type Row = (String, i64, String, bool);
    let rows: Vec<Row> = sql::all(connection, OLDEST, (limit,), READING)?;
    let mut found: Vec<PendingTurn> = Vec::new();
    let mut bytes = 0;
    for (turn_id, n, session_label, is_summary) in rows {
        let row = TurnRow { turn_id, n, session_label, is_summary };
        let turn = turn_texts::turn(connection, row, with_calls)?;
        bytes += turn.bytes();
        found.push(turn);
        if bytes >= PENDING_BYTES {
            break;
        }
    }
    Ok(found)
}

/// Stores the chunks of a turn. False if it is not to be indexed any more.
pub(crate) fn index(connection: &Connection, turn: &IndexedTurn) -> Stored<bool> {
    let taken = "DELETE FROM memory_pending WHERE turn_id = ?1";
    if sql::exec(connection, taken, (&turn.turn_id,), WRITING)? == 0
        || forget::is_forgotten(connection, "turn", &turn.turn_id)?
    {
        return Ok(false);
    }
    let done = "INSERT INTO memory_turns (turn_id, session_label, is_clipped) VALUES (?1, ?2, ?3)";
    let row = (&turn.turn_id, &turn.session_label, turn.is_clipped);
    sql::exec(connection, done, row, WRITING)?;
    if turn.kind == MemoryKind::Summary {
        // It has what the one before it had.
        let former =
            "SELECT n, text FROM memory_chunks WHERE session_label = ?1 AND kind = 'summary'";
        chunk_rows::delete(connection, former, &turn.session_label)?;
    }
    for fact in &turn.facts {
        fact_rows::store(connection, fact)?;
    }
    if turn.extracts {
        extraction_rows::note(connection, &turn.turn_id, &turn.session_label)?;
    }
    if turn.chunks.is_empty() {
        return Ok(true);
    }
    let scope = scope_rows::number(connection, &turn.scope)?;
    for (part, chunk) in (0..).zip(&turn.chunks) {
        let row = ChunkColumns {
            kind: turn.kind.as_str(),
            scope,
            session_label: Some(&turn.session_label),
            turn_id: Some(&turn.turn_id),
            part: Some(part),
            role: Some(&chunk.role),
            fact_id: None,
            text: &chunk.text,
            created_at: chunk.created_at,
        };
        chunk_rows::add(connection, &row)?;
    }
    Ok(true)
}

/// Notes the ended turns that are neither indexed nor forgotten, and the extractions that were given up. Returns what is left to do.
pub(crate) fn again(
    connection: &Connection,
    model: Option<i64>,
    vectors: Vectors,
) -> Stored<MemoryReindex> {
    let doing = "index the memory again";
    let add = "INSERT OR IGNORE INTO memory_pending (turn_id) SELECT t.id FROM turns t
         WHERE t.status NOT IN ('pending', 'streaming')
           AND NOT EXISTS (SELECT 1 FROM memory_turns m WHERE m.turn_id = t.id)
           AND NOT EXISTS (SELECT 1 FROM memory_forgotten f WHERE f.kind = 'turn' AND f.id = t.id)";
    sql::exec(connection, add, (), doing)?;
    extraction_rows::try_again(connection)?;
    match (vectors, model) {
        (Vectors::Anew, _) => vector_rows::delete_all(connection)?,
        (Vectors::Stay, Some(model)) => vector_rows::delete_former(connection, model)?,
        (Vectors::Stay, None) => {}
    }
    let turns = sql::one(connection, "SELECT count(*) FROM memory_pending", (), doing)?;
    let chunks = match vectors {
        Vectors::Anew => sql::one(connection, "SELECT count(*) FROM memory_chunks", (), doing)?,
        Vectors::Stay => 0,
    };
    Ok(MemoryReindex { turns, chunks })
}
