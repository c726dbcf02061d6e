//! Personas: an identity with a main session (docs/rules/sessions-and-ledger.md#personas).
//!
//! A persona's main session is created on first use like any other, with that persona. It must never move a session.

use std::sync::LazyLock;

use rusqlite::{Connection, params_from_iter};

use crate::sqlite::checksum::{insert_all, set};
use crate::sqlite::columns::{columns, list as list_columns, values};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{Page, PageOptions, PersonaRow, SessionKey, StorageError, StorageErrorKind};

/// The persona of a session that inherits none.
pub(crate) const DEFAULT: &str = "default";

columns!(PersonaRow { id, main_session_label, created_at, updated_at });

pub(crate) static PERSONA: LazyLock<String> = LazyLock::new(|| personas_of("id = ?1"));
pub(crate) static PERSONAS: LazyLock<String> =
    LazyLock::new(|| personas_of("id > ?1 ORDER BY id LIMIT ?2"));
pub(crate) const OF_MAIN: &str = "SELECT id FROM personas WHERE main_session_label = ?1";
pub(crate) const AGENT: &str = "SELECT agent_id FROM sessions WHERE label = ?1";
pub(crate) const OF_TURN: &str = "SELECT s.persona_id, s.agent_id FROM turns t JOIN sessions s ON s.label = t.session_label WHERE t.id = ?1";

fn personas_of(condition: &str) -> String {
    format!("SELECT {} FROM personas WHERE {condition}", list_columns::<PersonaRow>())
}

/// The persona and the agent of a session.
pub(crate) struct Identity {
    pub(crate) persona: String,
    pub(crate) agent: String,
}

/// The identity of a new session. Resolution order of the persona: the one whose main session it is, then its label, then
/// the session of the turn that it follows, then the default. The agent is that of the label, else it is resolved like the
/// persona.
pub(crate) fn of_session(
    connection: &Connection,
    label: &str,
    follows: Option<&str>,
) -> Stored<Identity> {
    let doing = format_args!("read the persona of session `{label}`");
    let key = SessionKey::parse(label);
    let main: Option<String> = sql::optional(connection, OF_MAIN, (label,), doing)?;
    let (persona, agent) = match (main.or(key.persona_id), follows) {
        (Some(named), _) => (named.clone(), named),
        (None, Some(turn)) => sql::optional(connection, OF_TURN, (turn,), doing)?
            .unwrap_or_else(|| (DEFAULT.to_owned(), DEFAULT.to_owned())),
        (None, None) => (DEFAULT.to_owned(), DEFAULT.to_owned()),
    };
    Ok(Identity { persona, agent: key.agent_id.unwrap_or(agent) })
}

/// The agent of a session; for a session that does not exist yet, its future agent.
pub(crate) fn agent_of(
    connection: &Connection,
    label: &str,
    follows: Option<&str>,
) -> Stored<String> {
    let doing = format_args!("read the agent of session `{label}`");
    let known: Option<String> = sql::optional(connection, AGENT, (label,), doing)?;
    known.map_or_else(|| Ok(of_session(connection, label, follows)?.agent), Ok)
}

/// The persona of that id.
pub(crate) fn find(connection: &Connection, id: &str) -> Stored<Option<PersonaRow>> {
    sql::optional(connection, &PERSONA, (id,), format_args!("read persona `{id}`"))
}

/// The personas, by id.
pub(crate) fn list(connection: &Connection, page: &PageOptions) -> Stored<Page<PersonaRow>> {
    let after = page.after.as_deref().unwrap_or_default();
    let found: Vec<PersonaRow> =
        sql::all(connection, &PERSONAS, (after, page.limit.and_one()), "list the personas")?;
    Ok(Page::cut(found.into_iter().map(|row| (row.id.clone(), row)).collect(), page.limit))
}

static PUT: LazyLock<String> = LazyLock::new(|| {
    let add = insert_all::<PersonaRow>("personas");
    let change = set(&[
        ("main_session_label", "excluded.main_session_label"),
        ("updated_at", "excluded.updated_at"),
    ]);
    let columns = list_columns::<PersonaRow>();
    format!("{add} ON CONFLICT (id) DO UPDATE SET {change} RETURNING {columns}")
});

/// Creates the persona, or sets its main session. Without `main` an existing one stays, and a new persona gets the default.
///
/// # Errors
/// `storage_constraint` if another persona has that main session.
pub(crate) fn put(
    connection: &Connection,
    id: &str,
    main: Option<&str>,
    now: i64,
) -> Stored<PersonaRow> {
    crate::sessions::moved::refuse(connection)?;
    let doing = format_args!("write persona `{id}`");
    let known = find(connection, id)?.map(|persona| persona.main_session_label);
    let main = main.map(ToOwned::to_owned).or(known).unwrap_or_else(|| main_label(id));
    let other: Option<String> = sql::optional(connection, OF_MAIN, (&main,), doing)?;
    if let Some(other) = other.filter(|other| other != id) {
        return Err(StorageError::new(
            StorageErrorKind::Constraint,
            format!("`{main}` is the main session of persona `{other}`; pass another label"),
        )
        .at("mainSessionLabel"));
    }
    let row = PersonaRow {
        id: id.to_owned(),
        main_session_label: main,
        created_at: now,
        updated_at: now,
    };
    sql::one(connection, &PUT, params_from_iter(values(&row)), doing)
}

/// The default main session of a persona.
fn main_label(id: &str) -> String {
    format!("agent:{id}:main")
}
