//! Personas: an identity, and the session that is its main one (docs/rules/sessions-and-ledger.md#personas).
//!
//! A persona's main session is created on first use like any other, with that persona. It must never move a session.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, Row};

use crate::sqlite::checksum::{insert, set};
use crate::sqlite::error::{Stored, sqlite};
use model::{Page, PageOptions, PersonaRow, SessionKey, StorageError, StorageErrorKind};

/// The persona of a session that inherits none.
pub(crate) const DEFAULT: &str = "default";

pub(crate) const PERSONA: &str =
    "SELECT id, main_session_label, created_at, updated_at FROM personas WHERE id = ?1";
pub(crate) const PERSONAS: &str = "SELECT id, main_session_label, created_at, updated_at FROM personas WHERE id > ?1 ORDER BY id LIMIT ?2";
pub(crate) const OF_MAIN: &str = "SELECT id FROM personas WHERE main_session_label = ?1";
pub(crate) const AGENT: &str = "SELECT agent_id FROM sessions WHERE label = ?1";
pub(crate) const OF_TURN: &str = "SELECT s.persona_id, s.agent_id FROM turns t JOIN sessions s ON s.label = t.session_label WHERE t.id = ?1";

/// Whose a session is.
pub(crate) struct Identity {
    pub(crate) persona: String,
    pub(crate) agent: String,
}

/// Whose a new session is. The persona: whose main session it is, what its label says, that of the turn it follows, or none.
/// The agent: what its label says, else as the persona was found.
pub(crate) fn of_session(
    connection: &Connection,
    label: &str,
    follows: Option<&str>,
) -> Stored<Identity> {
    let failed = |error| sqlite(&format!("read the persona of session `{label}`"), &error);
    let key = SessionKey::parse(label);
    let main: Option<String> = connection
        .prepare_cached(OF_MAIN)
        .and_then(|mut statement| statement.query_row((label,), |row| row.get(0)).optional())
        .map_err(failed)?;
    let (persona, agent) = match (main.or(key.persona_id), follows) {
        (Some(named), _) => (named.clone(), named),
        (None, Some(turn)) => connection
            .prepare_cached(OF_TURN)
            .and_then(|mut statement| {
                statement.query_row((turn,), |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .map_err(failed)?
            .unwrap_or_else(|| (DEFAULT.to_owned(), DEFAULT.to_owned())),
        (None, None) => (DEFAULT.to_owned(), DEFAULT.to_owned()),
    };
    Ok(Identity { persona, agent: key.agent_id.unwrap_or(agent) })
}

/// The agent of a session; of one that is not there yet, the one it would have.
pub(crate) fn agent_of(
    connection: &Connection,
    label: &str,
    follows: Option<&str>,
) -> Stored<String> {
    let known: Option<String> = connection
        .prepare_cached(AGENT)
        .and_then(|mut statement| statement.query_row((label,), |row| row.get(0)).optional())
        .map_err(|error| sqlite(&format!("read the agent of session `{label}`"), &error))?;
    known.map_or_else(|| Ok(of_session(connection, label, follows)?.agent), Ok)
}

/// The persona of that id.
pub(crate) fn find(connection: &Connection, id: &str) -> Stored<Option<PersonaRow>> {
    connection
        .prepare_cached(PERSONA)
        .and_then(|mut statement| statement.query_row((id,), row).optional())
        .map_err(|error| sqlite(&format!("read persona `{id}`"), &error))
}

/// The personas, by id.
pub(crate) fn list(connection: &Connection, page: &PageOptions) -> Stored<Page<PersonaRow>> {
    let after = page.after.as_deref().unwrap_or_default();
    let read = connection
        .prepare_cached(PERSONAS)
        .and_then(|mut statement| {
            statement
                .query_map((after, page.limit.and_one()), |found| {
                    row(found).map(|persona| (persona.id.clone(), persona))
                })?
                .collect::<rusqlite::Result<Vec<_>>>()
        })
        .map_err(|error| sqlite("list the personas", &error))?;
    Ok(Page::cut(read, page.limit))
}

static PUT: LazyLock<String> = LazyLock::new(|| {
    let row =
        [("id", "?1"), ("main_session_label", "?2"), ("created_at", "?3"), ("updated_at", "?3")];
    let change = set(&[
        ("main_session_label", "excluded.main_session_label"),
        ("updated_at", "excluded.updated_at"),
    ]);
    format!(
        "{} ON CONFLICT (id) DO UPDATE SET {change} RETURNING id, main_session_label, created_at, updated_at",
        insert("personas", &row)
    )
});

/// Creates the persona, or gives it another main session. `main` where it is `None`: what it has, or the usual one.
///
/// # Errors
/// `storage_constraint` where another persona has that main session.
pub(crate) fn put(
    connection: &Connection,
    id: &str,
    main: Option<&str>,
    now: i64,
) -> Stored<PersonaRow> {
    let failed = |error| sqlite(&format!("write persona `{id}`"), &error);
    let known = find(connection, id)?.map(|persona| persona.main_session_label);
    let main = main.map(ToOwned::to_owned).or(known).unwrap_or_else(|| main_label(id));
    let other: Option<String> = connection
        .prepare_cached(OF_MAIN)
        .and_then(|mut statement| statement.query_row((&main,), |row| row.get(0)).optional())
        .map_err(failed)?;
    if let Some(other) = other.filter(|other| other != id) {
        return Err(StorageError::new(
            StorageErrorKind::Constraint,
            format!("`{main}` is the main session of persona `{other}`; pass another label"),
        )
        .at("mainSessionLabel"));
    }
    connection
        .prepare_cached(&PUT)
        .and_then(|mut statement| statement.query_row((id, main, now), row))
        .map_err(failed)
}

/// The main session of a persona that names none.
fn main_label(id: &str) -> String {
    format!("agent:{id}:main")
}

fn row(row: &Row<'_>) -> rusqlite::Result<PersonaRow> {
    Ok(PersonaRow {
        id: row.get(0)?,
        main_session_label: row.get(1)?,
        created_at: row.get(2)?,
        updated_at: row.get(3)?,
    })
}
