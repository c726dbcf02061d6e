//! Sessions: a label that points at a turn. They are created, moved and archived inside the writer's transaction.
//!
//! A pointer must never move without its row in `session_history`.

use std::sync::LazyLock;

use broker::agents::task_status;
use rusqlite::Connection;

use crate::journal_rows::running::running_turn;
use crate::lease::claim::Claim;
use crate::sessions::persona::{self, Identity};
use crate::sessions::{aliases, moved};
use crate::sqlite::checksum::{insert, numbered, set};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{DispatchStatus, StorageError, StorageErrorKind, names_no_session};

static CREATE: LazyLock<String> = LazyLock::new(|| {
    insert(
        "sessions",
        &[
            ("label", "?1"),
            ("persona_id", "?2"),
            ("agent_id", "?3"),
            ("created_at", "?4"),
            ("updated_at", "?4"),
            ("opening", "?5"),
            ("is_subagent", "0"),
            ("status", "'active'"),
        ],
    )
});
/// The row of a deleted session whose turns stay.
static CREATE_AGAIN: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[
        ("persona_id", "?2"),
        ("agent_id", "?3"),
        ("created_at", "?4"),
        ("updated_at", "?4"),
        ("opening", "?5"),
    ]);
    format!("UPDATE sessions SET {change} WHERE label = ?1")
});
static OPENED: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("opening", "0")]);
    format!("UPDATE sessions SET {change} WHERE label = ?1 AND opening = 1")
});
/// An archived session whose label is now an alias stays archived.
static MOVE: LazyLock<String> = LazyLock::new(|| {
    let status =
        "CASE WHEN status = 'archived' AND EXISTS (SELECT 1 FROM session_aliases WHERE alias = ?1)
       THEN 'archived' ELSE 'active' END";
    let change =
        set(&[("thread_id", "?2"), ("updated_at", "?3"), ("opening", "0"), ("status", status)]);
    format!("UPDATE sessions SET {change} WHERE label = ?1")
});
static LOG: LazyLock<String> =
    LazyLock::new(|| insert("session_history", &numbered("session_label, thread_id, changed_at")));
static ARCHIVE: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("status", "?2"), ("updated_at", "?3")]);
    format!("UPDATE sessions SET {change} WHERE label = ?1 AND status <> ?2")
});

/// The session's head: `None` for no session, `Some(None)` for one without a turn.
pub(crate) fn head(connection: &Connection, label: &str) -> Stored<Option<Option<String>>> {
    let select = "SELECT thread_id FROM sessions WHERE label = ?1";
    sql::optional(connection, select, (label,), format_args!("read session `{label}`"))
}

/// Whether a session has the label. That of a deleted session is free, also while its turns stay.
pub(crate) fn is_taken(connection: &Connection, label: &str) -> Stored<bool> {
    let select = "SELECT 1 FROM sessions WHERE label = ?1 AND (opening = 0 OR thread_id IS NOT NULL OR EXISTS (
         SELECT 1 FROM runs r INDEXED BY runs_in_journal
         WHERE r.in_journal = 1 AND r.session_label = ?1 AND r.ended_at IS NULL))";
    sql::exists(connection, select, (label,), format_args!("read session `{label}`"))
}

/// Creates a session without a turn, with the persona of the turn that its first turn follows. Readers see it at once, or
/// with `opening` when its first turn has ended.
pub(crate) fn create(
    connection: &Connection,
    label: &str,
    follows: Option<&str>,
    now: i64,
    opening: bool,
) -> Stored<()> {
    let Identity { persona, agent } = persona::of_session(connection, label, follows)?;
    let row = (label, persona, agent, now, opening);
    let create = if head(connection, label)?.is_some() { &*CREATE_AGAIN } else { &*CREATE };
    sql::exec(connection, create, row, format_args!("create session `{label}`")).map(drop)
}

/// Makes the session visible, because its first turn has ended.
pub(crate) fn opened(connection: &Connection, label: &str) -> Stored<()> {
    sql::exec(connection, &OPENED, (label,), format_args!("open session `{label}`")).map(drop)
}

/// The session's head for readers: `None` also for a session whose first turn still runs.
pub(crate) fn visible_head(connection: &Connection, label: &str) -> Stored<Option<Option<String>>> {
    let select = "SELECT thread_id FROM sessions WHERE label = ?1 AND opening = 0";
    sql::optional(connection, select, (label,), format_args!("read session `{label}`"))
}

/// Points the session at a turn, and logs it. An archived session becomes active again, unless its label is an alias.
pub(crate) fn move_pointer(
    connection: &Connection,
    label: &str,
    turn_id: &str,
    now: i64,
) -> Stored<()> {
    sql::exec(connection, &MOVE, (label, turn_id, now), format_args!("move session `{label}`"))?;
    log(connection, label, turn_id, now)
}

/// Adds a row to `session_history`.
pub(crate) fn log(connection: &Connection, label: &str, turn_id: &str, at: i64) -> Stored<()> {
    let doing = format_args!("move session `{label}`");
    sql::exec(connection, &LOG, (label, turn_id, at), doing).map(drop)
}

/// Archives a session, or makes it active again.
///
/// # Errors
/// `unknown_session`; `storage_locked` while a turn of it runs; `storage_constraint` if its label is now an alias; `ledger_moved`.
pub(crate) fn set_archived(
    connection: &Connection,
    label: &str,
    archived: bool,
    claim: &Claim,
    now: i64,
) -> Stored<()> {
    moved::refuse(connection)?;
    if names_no_session(label) || visible_head(connection, label)?.is_none() {
        return Err(unknown_session(label));
    }
    if running_turn(connection, claim, label)?.is_some() {
        return Err(StorageError::new(
            StorageErrorKind::Locked,
            format!("a turn of session `{label}` runs; wait until it has ended"),
        ));
    }
    if !archived && aliases::is_alias(connection, label)? {
        return Err(StorageError::new(
            StorageErrorKind::Constraint,
            format!("`{label}` is an alias by now; remove that first"),
        )
        .at("label"));
    }
    let status = if archived { "archived" } else { "active" };
    let doing = format_args!("archive session `{label}`");
    sql::exec(connection, &ARCHIVE, (label, status, now), doing).map(drop)
}

/// The error for a name that is neither a session nor a turn.
pub(crate) fn unknown_session(label: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownSession,
        format!("`{label}` is neither a session nor a turn of the ledger"),
    )
}

static LINK: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[
        ("is_subagent", "1"),
        ("parent_session_label", "?2"),
        ("agent_id", "?3"),
        ("task_description", "?4"),
        ("task_status", "?5"),
        ("origin", "'subagent'"),
        ("origin_session_id", "?2"),
    ]);
    format!("UPDATE sessions SET {change} WHERE label = ?1")
});
static LINK_TURN: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("parent_turn_id", "?2"), ("spawn_tool_call_id", "?3")]);
    format!("UPDATE sessions SET {change} WHERE label = ?1 AND is_subagent = 1")
});
static TASK_STATUS: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("task_status", "?2")]);
    format!("UPDATE sessions SET {change} WHERE label = ?1 AND is_subagent = 1")
});

/// The session and the task for which a session was made.
pub(crate) struct Link<'a> {
    pub(crate) parent_session: &'a str,
    pub(crate) agent: &'a str,
    pub(crate) task: &'a str,
}

/// Makes a session that of a subagent.
pub(crate) fn link(connection: &Connection, label: &str, link: &Link<'_>) -> Stored<()> {
    let Link { parent_session, agent, task } = *link;
    let row = (label, parent_session, agent, task, task_status(DispatchStatus::Active));
    sql::exec(connection, &LINK, row, format_args!("link session `{label}`")).map(drop)
}

/// Links a subagent's session with the turn and the call that made it: both have their rows from the end of that turn on.
pub(crate) fn link_turn(
    connection: &Connection,
    label: &str,
    (turn_id, call_id): (&str, &str),
) -> Stored<()> {
    let doing = format_args!("link session `{label}`");
    sql::exec(connection, &LINK_TURN, (label, turn_id, call_id), doing).map(drop)
}

/// Sets the status of a subagent's task.
pub(crate) fn set_task_status(
    connection: &Connection,
    label: &str,
    status: DispatchStatus,
) -> Stored<()> {
    let doing = format_args!("write the status of session `{label}`");
    sql::exec(connection, &TASK_STATUS, (label, task_status(status)), doing).map(drop)
}
