//! A deleted session: its row is hidden at once with everything that only the session has, and removed when no turn names it any
//! more. It must never touch a turn. A salvage does not know it: the turns of a session that was being deleted are then in no session.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::deletion::owned_rows;
use crate::journal_rows::run_rows;
use crate::queue::dispatch_changes;
use crate::sessions::pointers::{unknown_session, visible_head};
use crate::sqlite::checksum::{insert, numbered, set};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use base::clock::Clock;
use model::{StorageError, StorageErrorKind};

/// A session that is deleted.
#[derive(Debug, Clone)]
pub(crate) struct PlannedSession {
    pub(crate) label: String,
    /// The turns of others that it has pointed at; `None` if its turns stay.
    pub(crate) threads: Option<Vec<String>>,
    /// The runs of it without a turn, by number.
    pub(crate) runs: Vec<i64>,
}

/// As a session that its first turn has not created yet.
static HIDE: LazyLock<String> = LazyLock::new(|| {
    let nothing = [
        "thread_id",
        "parent_session_label",
        "parent_turn_id",
        "spawn_tool_call_id",
        "task_description",
        "task_status",
        "routing_key",
        "origin",
        "origin_session_id",
    ];
    let mut change: Vec<(&str, &str)> = nothing.iter().map(|name| (*name, "NULL")).collect();
    change.extend([("is_subagent", "0"), ("status", "'active'"), ("opening", "1")]);
    format!("UPDATE sessions SET {} WHERE label = ?1", set(&change))
});
static ORPHAN: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("parent_session_label", "NULL")]);
    format!("UPDATE sessions SET {change} WHERE parent_session_label = ?1")
});
static PEND: LazyLock<String> = LazyLock::new(|| {
    insert("pending_deletions", &numbered("session_label, threads_json, hidden_at"))
        + " ON CONFLICT DO NOTHING"
});
/// A row that nothing needs.
const REMOVE: &str = "DELETE FROM sessions WHERE label = ?1 AND opening = 1 AND thread_id IS NULL
     AND NOT EXISTS (SELECT 1 FROM turn_rows WHERE session_label = ?1)
     AND NOT EXISTS (SELECT 1 FROM runs INDEXED BY runs_in_journal
       WHERE in_journal = 1 AND session_label = ?1 AND ended_at IS NULL)
     AND NOT EXISTS (SELECT 1 FROM session_leases WHERE session_label = ?1)";
const IS_HIDDEN: &str =
    "SELECT 1 FROM sessions WHERE label = ?1 AND opening = 1 AND thread_id IS NULL";

/// A deletion that was cut off.
pub(crate) struct Pending {
    /// The turns of others at which the session has pointed.
    pub(crate) threads: Vec<String>,
    /// When the session was hidden: later turns are of another session with its label.
    pub(crate) hidden_at: i64,
}

/// The deletion of a session whose turns are still being deleted.
pub(crate) fn pending(connection: &Connection, label: &str) -> Stored<Option<Pending>> {
    let select = "SELECT threads_json, hidden_at FROM pending_deletions WHERE session_label = ?1";
    let found: Option<(String, i64)> =
        sql::optional(connection, select, (label,), "read a deletion")?;
    Ok(found.map(|(json, hidden_at)| {
        let threads = serde_json::from_str(&json).unwrap_or_default();
        Pending { threads, hidden_at }
    }))
}

/// The sessions whose turns are still being deleted.
pub(crate) fn all_pending(connection: &Connection) -> Stored<Vec<String>> {
    let select = "SELECT session_label FROM pending_deletions ORDER BY session_label";
    sql::all(connection, select, (), "read the deletions")
}

/// Whether the session was deleted, or has no turn yet.
pub(crate) fn is_hidden(connection: &Connection, label: &str) -> Stored<bool> {
    sql::exists(connection, IS_HIDDEN, (label,), "read a session")
}

/// Refuses a session that cannot be deleted.
///
/// # Errors
/// `unknown_session`; `storage_locked` where a turn of it is open.
pub(crate) fn refuse(connection: &Connection, label: &str) -> Stored<()> {
    // The session of a first turn is not visible before that turn has ended.
    if !run_rows::open_of_session(connection, label)?.is_empty() {
        return Err(StorageError::new(
            StorageErrorKind::Locked,
            format!(
                "a turn of session `{label}` runs or was interrupted; wait until it has ended, resume it or discard it"
            ),
        ));
    }
    match visible_head(connection, label)? {
        Some(_) => Ok(()),
        None => Err(unknown_session(label)),
    }
}

/// Hides the session. False if it is in use by now; nothing is written then.
pub(crate) fn hide(
    connection: &Connection,
    session: &PlannedSession,
    clock: &Clock,
) -> Stored<bool> {
    let label = &session.label;
    if pending(connection, label)?.is_some() {
        return Ok(true);
    }
    if visible_head(connection, label)?.is_none() {
        return Ok(false);
    }
    if !run_rows::open_of_session(connection, label)?.is_empty() {
        return Ok(false);
    }
    let doing = format_args!("delete session `{label}`");
    dispatch_changes::session_deleted(connection, label, clock)?;
    owned_rows::of_session(connection, label)?;
    for run in &session.runs {
        owned_rows::of_run(connection, *run)?;
    }
    sql::exec(connection, &ORPHAN, (label,), doing)?;
    sql::exec(connection, &HIDE, (label,), doing)?;
    if let Some(threads) = &session.threads {
        let threads = serde_json::to_string(threads).unwrap_or_else(|_| "[]".to_owned());
        sql::exec(connection, &PEND, (label, threads, clock.now_ms()), doing)?;
    }
    Ok(true)
}

/// Ends the deletion of a hidden session: its row goes if no turn names it.
pub(crate) fn finish(connection: &Connection, label: &str) -> Stored<()> {
    let doing = format_args!("delete session `{label}`");
    let delete = "DELETE FROM pending_deletions WHERE session_label = ?1";
    sql::exec(connection, delete, (label,), doing)?;
    remove(connection, label)
}

/// Removes the row of a hidden session if no turn names it.
pub(crate) fn remove(connection: &Connection, label: &str) -> Stored<()> {
    sql::exec(connection, REMOVE, (label,), format_args!("delete session `{label}`")).map(drop)
}
