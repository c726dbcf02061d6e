//! Turns in their tree, and where sessions pointed: a turn's ancestry and children, a session's moves, its state at a time.
//!
//! A turn that still runs is in none of them. It must never walk further than the page it was asked for.

use rusqlite::{Connection, OptionalExtension, Row};

use crate::rows::turn_parents::{parent_of, unknown_turn};
use crate::sqlite::error::{Stored, sqlite};
use model::{
    Page, PageOptions, SessionMove, StorageError, StorageErrorKind, TokenUsage, TurnSummary,
};

macro_rules! summary {
    ($rest:literal) => {
        concat!(
            "SELECT id, parent_turn_id, turn_type, status, session_label, run_id, depth, has_children, started_at,
               completed_at, model, provider, role, input_tokens, output_tokens, cached_input_tokens,
               cache_write_tokens, reasoning_tokens, total_tokens, cost, tool_call_count, stop_reason
             FROM turns WHERE status NOT IN ('pending', 'streaming') AND ",
            $rest
        )
    };
}

pub(crate) const ONE: &str = summary!("id = ?1");
pub(crate) const CHILDREN: &str = summary!("parent_turn_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
pub(crate) const MOVES: &str =
    "SELECT id, session_label, thread_id, changed_at FROM session_history
     WHERE session_label = ?1 AND (changed_at, id) > (?2, ?3) ORDER BY changed_at, id LIMIT ?4";
pub(crate) const MOVE: &str = "SELECT changed_at FROM session_history WHERE id = ?1";
pub(crate) const AS_OF: &str =
    "SELECT id, session_label, thread_id, changed_at FROM session_history
     WHERE session_label = ?1 AND changed_at <= ?2 ORDER BY changed_at DESC, id DESC LIMIT 1";

/// The turn and those above it, the turn first and the root last.
///
/// # Errors
/// `unknown_turn`, also for an `after` that is none.
pub(crate) fn ancestry(
    connection: &Connection,
    turn_id: &str,
    page: &PageOptions,
) -> Stored<Page<TurnSummary>> {
    let first = one(connection, turn_id)?.ok_or_else(|| unknown_turn(turn_id))?;
    let mut next = match &page.after {
        None => Some(first),
        Some(after) => {
            let last =
                one(connection, after)?.ok_or_else(|| unknown_turn(after).at("page.after"))?;
            above(connection, &last)?
        }
    };
    let mut found = Vec::new();
    while let Some(turn) = next.take() {
        let full = found.len() == page.limit.items();
        if !full {
            next = above(connection, &turn)?;
        }
        found.push((turn.id.clone(), turn));
    }
    Ok(Page::cut(found, page.limit))
}

fn above(connection: &Connection, turn: &TurnSummary) -> Stored<Option<TurnSummary>> {
    match &turn.parent_turn_id {
        None => Ok(None),
        Some(parent) => one(connection, parent),
    }
}

fn one(connection: &Connection, id: &str) -> Stored<Option<TurnSummary>> {
    connection
        .prepare_cached(ONE)
        .and_then(|mut statement| statement.query_row((id,), turn).optional())
        .map_err(|error| sqlite(&format!("read turn `{id}`"), &error))
}

/// The turns that follow a turn, by their ids.
///
/// # Errors
/// `unknown_turn`.
pub(crate) fn children(
    connection: &Connection,
    turn_id: &str,
    page: &PageOptions,
) -> Stored<Page<TurnSummary>> {
    parent_of(connection, turn_id)?;
    let after = page.after.as_deref().unwrap_or_default();
    let read = connection
        .prepare_cached(CHILDREN)
        .and_then(|mut statement| {
            statement
                .query_map((turn_id, after, page.limit.and_one()), |row| {
                    turn(row).map(|turn| (turn.id.clone(), turn))
                })?
                .collect::<rusqlite::Result<Vec<_>>>()
        })
        .map_err(|error| sqlite(&format!("read the children of turn `{turn_id}`"), &error))?;
    Ok(Page::cut(read, page.limit))
}

fn turn(row: &Row<'_>) -> rusqlite::Result<TurnSummary> {
    let count = |at: usize| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.cast_unsigned());
    Ok(TurnSummary {
        id: row.get(0)?,
        parent_turn_id: row.get(1)?,
        turn_type: row.get(2)?,
        status: row.get(3)?,
        session_label: row.get(4)?,
        run_id: row.get(5)?,
        depth: row.get(6)?,
        has_children: row.get(7)?,
        started_at: row.get(8)?,
        completed_at: row.get(9)?,
        model: row.get(10)?,
        provider: row.get(11)?,
        role: row.get(12)?,
        usage: TokenUsage {
            input_tokens: count(13)?,
            output_tokens: count(14)?,
            cached_input_tokens: count(15)?,
            cache_write_tokens: count(16)?,
            reasoning_tokens: count(17)?,
            total_tokens: count(18)?,
        },
        cost: row.get(19)?,
        tool_call_count: row.get(20)?,
        stop_reason: row.get(21)?,
    })
}

/// Where the session has pointed, oldest first.
pub(crate) fn session_history(
    connection: &Connection,
    label: &str,
    page: &PageOptions,
) -> Stored<Page<SessionMove>> {
    let failed = |error| sqlite(&format!("read the moves of session `{label}`"), &error);
    let after = match &page.after {
        None => (i64::MIN, i64::MIN),
        Some(after) => {
            let at = after.parse::<i64>().ok().and_then(|id| {
                let mut statement = connection.prepare_cached(MOVE).ok()?;
                let found = statement.query_row((id,), |row| row.get(0)).optional();
                found.transpose().map(|changed_at| changed_at.map(|changed_at| (changed_at, id)))
            });
            at.transpose().map_err(failed)?.ok_or_else(|| no_cursor("page.after", after))?
        }
    };
    let read = connection
        .prepare_cached(MOVES)
        .and_then(|mut statement| {
            statement
                .query_map((label, after.0, after.1, page.limit.and_one()), |row| {
                    moved(row).map(|moved| (moved.id.to_string(), moved))
                })?
                .collect::<rusqlite::Result<Vec<_>>>()
        })
        .map_err(failed)?;
    Ok(Page::cut(read, page.limit))
}

/// Where the session pointed at a time.
pub(crate) fn as_of(
    connection: &Connection,
    label: &str,
    time: i64,
) -> Stored<Option<SessionMove>> {
    connection
        .prepare_cached(AS_OF)
        .and_then(|mut statement| statement.query_row((label, time), moved).optional())
        .map_err(|error| sqlite(&format!("read the moves of session `{label}`"), &error))
}

fn moved(row: &Row<'_>) -> rusqlite::Result<SessionMove> {
    Ok(SessionMove {
        id: row.get(0)?,
        session_label: row.get(1)?,
        thread_id: row.get(2)?,
        changed_at: row.get(3)?,
    })
}

/// The refusal of a cursor that no page gave.
pub(crate) fn no_cursor(field: &str, after: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::InvalidQuery,
        format!("`{field}`: `{after}` is not the `next` of a page"),
    )
    .at(field)
}
