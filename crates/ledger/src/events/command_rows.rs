//! The rows of `session_commands`: commands to runs of other processes, and their answers.
//!
//! A command is addressed to one lease. It must never be answered twice.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::lease::claim::Claim;
use crate::sqlite::checksum::{insert, numbered, set};
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{SessionCommand, StorageError, StorageErrorKind};

/// The age at which a command is deleted whose sender has not deleted it: the sender has ended.
const ABANDONED_MS: i64 = 600_000;

/// A command that has no answer yet.
pub(crate) struct OpenCommand {
    pub(crate) id: i64,
    pub(crate) session_label: String,
    pub(crate) epoch: i64,
    pub(crate) message: Option<String>,
}

columns!(OpenCommand { id, session_label, epoch, message });

static ADD: LazyLock<String> = LazyLock::new(|| {
    let row = numbered("session_label, epoch, command, message, created_at");
    insert("session_commands", &row) + " RETURNING id"
});
static OPEN: LazyLock<String> = LazyLock::new(|| {
    let columns = list::<OpenCommand>();
    format!("SELECT {columns} FROM session_commands WHERE taken IS NULL ORDER BY id")
});
static ANSWER: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("taken", "?2"), ("message", "NULL")]);
    format!("UPDATE session_commands SET {change} WHERE id = ?1")
});

/// Writes a command for the run that holds the session's lease. Returns the command's id and the epoch of the lease.
pub(crate) fn add(
    connection: &Connection,
    claim: &Claim,
    label: &str,
    command: &SessionCommand,
) -> Stored<(i64, i64)> {
    let doing = format_args!("command the run of session `{label}`");
    let select = "SELECT epoch FROM session_leases WHERE session_label = ?1";
    let epoch: Option<i64> = sql::optional(connection, select, (label,), doing)?;
    let Some(epoch) = epoch else { return Err(not_running(label)) };
    if !claim.runs(connection, label, epoch)? {
        return Err(not_running(label));
    }
    let now = claim.clock.now_ms();
    let delete = "DELETE FROM session_commands WHERE created_at NOT BETWEEN ?1 AND ?2";
    sql::exec(connection, delete, (now - ABANDONED_MS, now + ABANDONED_MS), doing)?;
    let (name, message) = match command {
        SessionCommand::Abort => ("abort", None),
        SessionCommand::Steer(message) => ("steer", Some(message)),
    };
    let id = sql::one(connection, &ADD, (label, epoch, name, message, now), doing)?;
    Ok((id, epoch))
}

pub(crate) fn answer_of(connection: &Connection, id: i64) -> Stored<Option<bool>> {
    let select = "SELECT taken FROM session_commands WHERE id = ?1";
    sql::one(connection, select, (id,), "read the answer to a command")
}

pub(crate) fn delete(connection: &Connection, id: i64) -> Stored<()> {
    let delete = "DELETE FROM session_commands WHERE id = ?1";
    sql::exec(connection, delete, (id,), "delete a command").map(drop)
}

/// The commands without an answer, oldest first.
pub(crate) fn open(connection: &Connection) -> Stored<Vec<OpenCommand>> {
    sql::all(connection, &OPEN, (), "read the commands of other processes")
}

pub(crate) fn answer(connection: &Connection, id: i64, taken: bool) -> Stored<()> {
    sql::exec(connection, &ANSWER, (id, taken), "answer a command").map(drop)
}

pub(crate) fn not_running(label: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::NotRunning,
        format!("no run is under way in session `{label}`; start one"),
    )
}
