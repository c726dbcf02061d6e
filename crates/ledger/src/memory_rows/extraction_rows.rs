//! The rows of `memory_extractions`, and the facts that a model has found: each turn's facts are stored once, in the transaction that takes
//! the turn off the list.
//!
//! It must never replace a fact by an older one or by one that is less certain.

use rusqlite::Connection;

use crate::memory_rows::turn_texts::{self, TurnRow};
use crate::memory_rows::{chunk_rows, fact_rows};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{ExtractedFact, FactInput, MemoryFact, UnextractedTurn};

const DOING: &str = "extract facts";
pub(crate) const OLDEST: &str = "SELECT e.turn_id, t.n, t.session_label, e.attempts
     FROM memory_extractions e INDEXED BY memory_extractions_open CROSS JOIN turns t ON t.id = e.turn_id
     WHERE e.is_skipped = 0 ORDER BY e.turn_id LIMIT ?1";
pub(crate) const SKIPPED: &str = "SELECT count(*) FROM memory_extractions WHERE is_skipped = 1";
pub(crate) const LAST_PROBLEM: &str =
    "SELECT problem FROM memory_extractions WHERE is_skipped = 1 ORDER BY turn_id DESC LIMIT 1";
pub(crate) const OPEN: &str = "SELECT count(*) FROM memory_extractions WHERE is_skipped = 0";

/// Notes a turn that is indexed in this transaction.
pub(crate) fn note(connection: &Connection, turn_id: &str, session_label: &str) -> Stored<()> {
    let add =
        "INSERT OR IGNORE INTO memory_extractions (turn_id, session_label, attempts, is_skipped)
         VALUES (?1, ?2, 0, 0)";
    sql::exec(connection, add, (turn_id, session_label), DOING).map(drop)
}

/// The oldest turns whose facts are not extracted yet.
pub(crate) fn oldest(connection: &Connection, limit: usize) -> Stored<Vec<UnextractedTurn>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    type Row = (String, i64, String, u32);
    let rows: Vec<Row> = sql::all(connection, OLDEST, (limit,), DOING)?;
    rows.into_iter()
        .map(|(turn_id, n, session_label, attempts)| {
            let row = TurnRow { turn_id, n, session_label, is_summary: false };
            Ok(UnextractedTurn { turn: turn_texts::turn(connection, row, false)?, attempts })
        })
        .collect()
}

/// Stores the facts of a turn. False if it is not to be extracted any more.
pub(crate) fn store(
    connection: &Connection,
    turn_id: &str,
    facts: &[ExtractedFact],
) -> Stored<bool> {
    if !remove(connection, turn_id)? {
        return Ok(false);
    }
    for fact in facts {
        store_one(connection, fact)?;
    }
    Ok(true)
}

fn store_one(connection: &Connection, found: &ExtractedFact) -> Stored<()> {
    let ExtractedFact { input, replaces } = found;
    let fact = &input.fact;
    let known = fact_rows::of_subject(connection, fact)?;
    if known.iter().any(|other| says_the_same(other, fact)) {
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
        return fact_rows::store(connection, &input).map(drop);
    }
    fact_rows::store(connection, input)?;
    for other in known.iter().filter(|other| *replaces && other.confidence <= fact.confidence) {
        fact_rows::end(connection, &other.id, fact, None)?;
        chunk_rows::delete(connection, chunk_rows::OF_FACT, &other.id)?;
    }
    Ok(())
}

/// Whether two facts have the same content, apart from the case of its letters.
fn says_the_same(one: &MemoryFact, other: &MemoryFact) -> bool {
    one.content.get().to_lowercase() == other.content.get().to_lowercase()
}

/// Notes an answer that could not be used.
pub(crate) fn failed(
    connection: &Connection,
    turn_id: &str,
    problem: &str,
    gives_up: bool,
) -> Stored<()> {
    let change = "UPDATE memory_extractions SET attempts = attempts + 1, problem = ?2, is_skipped = ?3 WHERE turn_id = ?1";
    sql::exec(connection, change, (turn_id, problem, gives_up), DOING).map(drop)
}

/// Those that were given up are tried again.
pub(crate) fn try_again(connection: &Connection) -> Stored<()> {
    let change = "UPDATE memory_extractions SET attempts = 0, problem = NULL, is_skipped = 0 WHERE is_skipped = 1";
    sql::exec(connection, change, (), DOING).map(drop)
}

/// Takes a turn off the list. False if it is not on it.
pub(crate) fn remove(connection: &Connection, turn_id: &str) -> Stored<bool> {
    let taken = "DELETE FROM memory_extractions WHERE turn_id = ?1";
    Ok(sql::exec(connection, taken, (turn_id,), DOING)? > 0)
}

/// Takes the turns of a session off the list.
pub(crate) fn forget(connection: &Connection, label: &str) -> Stored<()> {
    let taken = "DELETE FROM memory_extractions WHERE session_label = ?1";
    sql::exec(connection, taken, (label,), DOING).map(drop)
}
