//! Forgetting: texts, words and vectors go in one transaction, and a tombstone stays. A deletion of turns takes what is remembered of
//! them along, without a tombstone.
//!
//! It must never delete a turn of the ledger.

use rusqlite::Connection;

use crate::memory_rows::{chunk_rows, extraction_rows, fact_rows, scope_rows, usage_rows};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{ForgetOptions, MemoryForgotten, MemoryScopeKind};

const DOING: &str = "forget";
pub(crate) const FACTS_OF_TURN: &str = "SELECT id FROM memory_facts WHERE turn_id = ?1";
pub(crate) const FACTS_OF_ENTITY: &str =
    "SELECT id FROM memory_facts WHERE lower(entity) = lower(?1)
     AND (?2 IS NULL OR scope IN (SELECT value FROM json_each(?2)))";
const FACTS_OF_ID: &str = "SELECT id FROM memory_facts WHERE id = ?1
     AND (?2 IS NULL OR scope IN (SELECT value FROM json_each(?2)))";
const FACTS_OF_SCOPE: &str = "SELECT f.id FROM memory_facts f JOIN memory_scopes s ON s.n = f.scope
     WHERE s.kind = ?1 AND s.id = ?2";
/// Also those that run: what they say is not indexed when they end.
const TURNS: &str = "SELECT id FROM turns WHERE session_label = ?1 AND turn_type = 'normal'
     UNION SELECT turn_id FROM runs WHERE in_journal = 1 AND ended_at IS NULL AND session_label = ?1";
/// The compactions after the turns of a JSON array, in their threads and in the sessions that were forked from these: their summaries may
/// quote the turns.
pub(crate) const SUMMARIES: &str = "WITH RECURSIVE below (id) AS (
       SELECT value FROM json_each(?1)
       UNION SELECT t.id FROM below b CROSS JOIN turns t ON t.parent_turn_id = b.id)
     SELECT t.id FROM below b CROSS JOIN turns t ON t.id = b.id WHERE t.turn_type = 'compaction' ORDER BY t.id";

/// Forgets what the options name. What is not there was forgotten already.
pub(crate) fn forget(
    connection: &Connection,
    options: &ForgetOptions,
    now: i64,
) -> Stored<MemoryForgotten> {
    let scopes = match &options.scopes {
        Some(scopes) => Some(fact_rows::as_json(&scope_rows::numbers(connection, scopes)?)),
        None => None,
    };
    let mut done = MemoryForgotten::default();
    let mut facts: Vec<String> = Vec::new();
    let mut turns: Vec<String> = options.turn_id.iter().cloned().collect();
    if let Some(id) = &options.id {
        facts = sql::all(connection, FACTS_OF_ID, (id, &scopes), DOING)?;
    }
    if let Some(entity) = &options.entity {
        facts = sql::all(connection, FACTS_OF_ENTITY, (entity, &scopes), DOING)?;
    }
    if let Some(session) = &options.session {
        turns = sql::all(connection, TURNS, (session,), DOING)?;
        let of = (MemoryScopeKind::Session.as_str(), session);
        facts = sql::all(connection, FACTS_OF_SCOPE, of, DOING)?;
    }
    for turn in &turns {
        facts.extend(sql::all::<String>(connection, FACTS_OF_TURN, (turn,), DOING)?);
    }
    if !turns.is_empty() {
        let ids = serde_json::to_string(&turns).unwrap_or_else(|_| "[]".to_owned());
        done.summaries = sql::all(connection, SUMMARIES, (ids,), DOING)?;
        done.summaries.retain(|summary| !turns.contains(summary));
    }
    for id in &facts {
        done.chunks += remove_fact(connection, id)?;
        done.facts += 1;
        tombstone(connection, "fact", id, now)?;
    }
    for turn in turns.iter().chain(&done.summaries) {
        done.chunks += remove_turn(connection, turn)?;
        tombstone(connection, "turn", turn, now)?;
    }
    done.turns = turns.len() as u64;
    Ok(done)
}

/// Notes what stays forgotten.
pub(crate) fn tombstone(connection: &Connection, kind: &str, id: &str, now: i64) -> Stored<()> {
    let add = "INSERT OR IGNORE INTO memory_forgotten (kind, id, forgotten_at) VALUES (?1, ?2, ?3)";
    sql::exec(connection, add, (kind, id, now), DOING).map(drop)
}

/// What another ledger has forgotten goes here as well.
pub(crate) fn copied(connection: &Connection, (kind, id): (&str, &str), at: &str) -> Stored<()> {
    match kind {
        "fact" => remove_fact(connection, id)?,
        _ => remove_turn(connection, id)?,
    };
    let add = "INSERT OR REPLACE INTO memory_forgotten (kind, id, forgotten_at)
         VALUES (?1, ?2, CAST(?3 AS INTEGER))";
    sql::exec(connection, add, (kind, id, at), DOING).map(drop)
}

/// Whether a turn or a fact was forgotten.
pub(crate) fn is_forgotten(connection: &Connection, kind: &str, id: &str) -> Stored<bool> {
    let select = "SELECT 1 FROM memory_forgotten WHERE kind = ?1 AND id = ?2";
    sql::exists(connection, select, (kind, id), DOING)
}

fn remove_fact(connection: &Connection, id: &str) -> Stored<u64> {
    let chunks = chunk_rows::delete(connection, chunk_rows::OF_FACT, id)?;
    sql::exec(connection, "DELETE FROM memory_facts WHERE id = ?1", (id,), DOING)?;
    Ok(chunks)
}

fn remove_turn(connection: &Connection, turn: &str) -> Stored<u64> {
    sql::exec(connection, "DELETE FROM memory_pending WHERE turn_id = ?1", (turn,), DOING)?;
    sql::exec(connection, "DELETE FROM memory_turns WHERE turn_id = ?1", (turn,), DOING)?;
    extraction_rows::remove(connection, turn)?;
    chunk_rows::delete(connection, chunk_rows::OF_TURN, turn)
}

/// Deletes what is remembered of a turn that is deleted, with the facts that were learned in it.
pub(crate) fn of_turn(connection: &Connection, turn: &str) -> Stored<()> {
    for fact in sql::all::<String>(connection, FACTS_OF_TURN, (turn,), DOING)? {
        remove_fact(connection, &fact)?;
    }
    remove_turn(connection, turn).map(drop)
}

/// Deletes what belongs to a session that is deleted, but what its turns have that stay.
pub(crate) fn of_session(connection: &Connection, label: &str) -> Stored<()> {
    chunk_rows::delete(connection, chunk_rows::OF_SESSION, label)?;
    sql::exec(connection, "DELETE FROM memory_turns WHERE session_label = ?1", (label,), DOING)?;
    extraction_rows::forget(connection, label)?;
    usage_rows::forget(connection, label)?;
    let of = (MemoryScopeKind::Session.as_str(), label);
    for fact in sql::all::<String>(connection, FACTS_OF_SCOPE, of, DOING)? {
        remove_fact(connection, &fact)?;
    }
    Ok(())
}
