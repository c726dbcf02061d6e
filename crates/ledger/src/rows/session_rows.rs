//! The rows of `sessions`: their columns, and reading one. A session exists as soon as its first
//! turn is opened. It must never show a run in no session as one.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::rows::metadata_rows::{OF_SESSION, of_column};
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::Stored;
use crate::sqlite::fields::Fields;
use crate::sqlite::sql;
use model::SessionRow;

columns!(SessionRow {
    label,
    thread_id,
    persona_id,
    is_subagent,
    parent_session_label,
    parent_turn_id,
    spawn_tool_call_id,
    task_description,
    task_status,
    routing_key,
    origin,
    origin_session_id,
    created_at,
    updated_at,
    status,
    agent_id,
} and { metadata: None });

pub(crate) static SESSION: LazyLock<String> = LazyLock::new(|| {
    let columns = columns_with_metadata();
    format!("SELECT {columns} FROM sessions WHERE label = ?1 AND {IS_THERE}")
});

/// A session is there once its first turn is open. A deleted one has a row as long as turns of it are left.
const IS_THERE: &str = "(opening = 0 OR EXISTS (SELECT 1 FROM runs INDEXED BY runs_in_journal
     WHERE in_journal = 1 AND session_label = label AND ended_at IS NULL))";

/// The condition of the rows that are sessions, and not runs in none: see `model::names_no_session`.
pub(crate) static IS_SESSION: LazyLock<String> = LazyLock::new(|| {
    let ulid = "[0-9A-HJKMNP-TV-Z]".repeat(26);
    format!("label NOT GLOB 'run:{ulid}' AND {IS_THERE}")
});

/// The row of that label, which may be that of a run in no session.
pub(crate) fn session(connection: &Connection, label: &str) -> Stored<Option<SessionRow>> {
    sql::first(connection, &SESSION, (label,), format_args!("read session `{label}`"), session_row)
}

/// The columns that [`session_row`] reads, of a row of `sessions`.
pub(crate) fn columns_with_metadata() -> String {
    format!("{}, {OF_SESSION}", list::<SessionRow>())
}

/// A session from its row.
pub(crate) fn session_row(fields: &mut Fields<'_>) -> Stored<SessionRow> {
    let row: SessionRow = fields.next()?;
    Ok(SessionRow { metadata: of_column(fields.next()?), ..row })
}
