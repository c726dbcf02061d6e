//! Sessions: a label that points at a turn. Creating, moving and forking them inside the writer's transaction.
//!
//! A pointer must never move without its row in `session_history`.

use rusqlite::{Connection, OptionalExtension};

use super::commit::unknown_turn;
use super::error::{Stored, sqlite};
use crate::model::{StorageError, StorageErrorKind};

/// The persona of a session that inherits none.
pub(super) const DEFAULT_PERSONA: &str = "default";

/// The session's head: `None` for no session, `Some(None)` for one without a turn.
pub(super) fn head(connection: &Connection, label: &str) -> Stored<Option<Option<String>>> {
    connection
        .prepare_cached("SELECT thread_id FROM sessions WHERE label = ?1")
        .and_then(|mut statement| statement.query_row((label,), |row| row.get(0)).optional())
        .map_err(|error| sqlite(&format!("read session `{label}`"), &error))
}

/// The persona of the session in which a turn was run.
pub(super) fn persona_of_turn(
    connection: &Connection,
    turn_id: Option<&str>,
) -> Stored<Option<String>> {
    let Some(turn_id) = turn_id else { return Ok(None) };
    connection
        .prepare_cached(
            "SELECT s.persona_id FROM turns t JOIN sessions s ON s.label = t.session_label WHERE t.id = ?1",
        )
        .and_then(|mut statement| statement.query_row((turn_id,), |row| row.get(0)).optional())
        .map_err(|error| sqlite("read the persona of a turn", &error))
}

/// A session without a turn.
pub(super) fn create(connection: &Connection, label: &str, persona: &str, now: i64) -> Stored<()> {
    connection
        .prepare_cached(
            "INSERT INTO sessions (label, persona_id, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)",
        )
        .and_then(|mut statement| statement.execute((label, persona, now)))
        .map(drop)
        .map_err(|error| sqlite(&format!("create session `{label}`"), &error))
}

/// Points the session at a turn, and logs it.
pub(super) fn move_pointer(
    connection: &Connection,
    label: &str,
    turn_id: &str,
    now: i64,
) -> Stored<()> {
    let failed = |error| sqlite(&format!("move session `{label}`"), &error);
    connection
        .prepare_cached("UPDATE sessions SET thread_id = ?2, updated_at = ?3 WHERE label = ?1")
        .and_then(|mut statement| statement.execute((label, turn_id, now)))
        .map_err(failed)?;
    connection
        .prepare_cached(
            "INSERT INTO session_history (session_label, thread_id, changed_at) VALUES (?1, ?2, ?3)",
        )
        .and_then(|mut statement| statement.execute((label, turn_id, now)))
        .map(drop)
        .map_err(failed)
}

/// A new session that begins at any turn there is, with the persona of that turn.
///
/// # Errors
/// `unknown_turn`, or `storage_constraint` when the label is taken.
pub(super) fn fork(connection: &Connection, turn_id: &str, label: &str, now: i64) -> Stored<()> {
    let persona =
        persona_of_turn(connection, Some(turn_id))?.ok_or_else(|| unknown_turn(turn_id))?;
    if head(connection, label)?.is_some() {
        return Err(StorageError::new(
            StorageErrorKind::Constraint,
            format!("session `{label}` is there already; pass another label, or none"),
        ));
    }
    create(connection, label, &persona, now)?;
    move_pointer(connection, label, turn_id, now)
}
