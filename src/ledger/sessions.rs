//! Sessions: a label that points at a turn. Creating, moving and forking them inside the writer's transaction.
//!
//! A pointer must never move without its row in `session_history`.

use rusqlite::{Connection, OptionalExtension};

use super::commit::parent_of;
use super::error::{Stored, sqlite};
use crate::model::{StorageError, StorageErrorKind};

/// The persona of a session that inherits none.
const DEFAULT_PERSONA: &str = "default";

/// The session's head: `None` for no session, `Some(None)` for one without a turn.
pub(super) fn head(connection: &Connection, label: &str) -> Stored<Option<Option<String>>> {
    connection
        .prepare_cached("SELECT thread_id FROM sessions WHERE label = ?1")
        .and_then(|mut statement| statement.query_row((label,), |row| row.get(0)).optional())
        .map_err(|error| sqlite(&format!("read session `{label}`"), &error))
}

/// The persona of the session in which a turn was run.
fn persona_of_turn(connection: &Connection, turn_id: Option<&str>) -> Stored<Option<String>> {
    let Some(turn_id) = turn_id else { return Ok(None) };
    connection
        .prepare_cached(
            "SELECT s.persona_id FROM turns t JOIN sessions s ON s.label = t.session_label WHERE t.id = ?1",
        )
        .and_then(|mut statement| statement.query_row((turn_id,), |row| row.get(0)).optional())
        .map_err(|error| sqlite("read the persona of a turn", &error))
}

/// A session without a turn, with the persona of the turn its first one follows. Readers see it at once, or, `opening`,
/// when its first turn has ended.
pub(super) fn create(
    connection: &Connection,
    label: &str,
    follows: Option<&str>,
    now: i64,
    opening: bool,
) -> Stored<()> {
    let persona =
        persona_of_turn(connection, follows)?.unwrap_or_else(|| DEFAULT_PERSONA.to_owned());
    connection
        .prepare_cached(
            "INSERT INTO sessions (label, persona_id, created_at, updated_at, opening) VALUES (?1, ?2, ?3, ?3, ?4)",
        )
        .and_then(|mut statement| statement.execute((label, persona, now, opening)))
        .map(drop)
        .map_err(|error| sqlite(&format!("create session `{label}`"), &error))
}

/// Lets readers see the session, whose first turn has ended.
pub(super) fn opened(connection: &Connection, label: &str) -> Stored<()> {
    connection
        .prepare_cached("UPDATE sessions SET opening = 0 WHERE label = ?1 AND opening = 1")
        .and_then(|mut statement| statement.execute((label,)))
        .map(drop)
        .map_err(|error| sqlite(&format!("open session `{label}`"), &error))
}

/// The session's head, as readers see it: `None` also for a session whose first turn still runs.
pub(super) fn visible_head(connection: &Connection, label: &str) -> Stored<Option<Option<String>>> {
    connection
        .prepare_cached("SELECT thread_id FROM sessions WHERE label = ?1 AND opening = 0")
        .and_then(|mut statement| statement.query_row((label,), |row| row.get(0)).optional())
        .map_err(|error| sqlite(&format!("read session `{label}`"), &error))
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
        .prepare_cached(
            "UPDATE sessions SET thread_id = ?2, updated_at = ?3, opening = 0 WHERE label = ?1",
        )
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
/// `unknown_turn`, also for one that still runs; `storage_constraint` when the label is taken.
pub(super) fn fork(connection: &Connection, turn_id: &str, label: &str, now: i64) -> Stored<()> {
    parent_of(connection, turn_id)?;
    if head(connection, label)?.is_some() {
        return Err(StorageError::new(
            StorageErrorKind::Constraint,
            format!("session `{label}` is there already; pass another label, or none"),
        ));
    }
    create(connection, label, Some(turn_id), now, false)?;
    move_pointer(connection, label, turn_id, now)
}
