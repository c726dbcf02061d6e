//! The rows of `sessions`: their columns, and reading one. It must never show a session whose first turn has not ended.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::Stored;
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
});

pub(crate) static SESSION: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM sessions WHERE label = ?1 AND opening = 0", list::<SessionRow>())
});

/// The session of that label.
pub(crate) fn session(connection: &Connection, label: &str) -> Stored<Option<SessionRow>> {
    sql::optional(connection, &SESSION, (label,), format_args!("read session `{label}`"))
}
