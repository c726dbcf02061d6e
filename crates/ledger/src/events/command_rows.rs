//! The rows of `session_commands`: commands to runs of other processes, and their answers.
//!
//! A command is meant for one lease. It must never be answered twice.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension};

use crate::lease::claim::Claim;
use crate::sqlite::checksum::{insert, numbered, set};
use crate::sqlite::error::{Stored, sqlite};
use model::{SessionCommand, StorageError, StorageErrorKind};

/// Commands that nobody took away: who asked has ended.
const FORGOTTEN_MS: i64 = 600_000;
/// A command that waits for its run.
pub(crate) struct OpenCommand {
    pub(crate) id: i64,
    pub(crate) label: String,
    pub(crate) epoch: i64,
    pub(crate) message: Option<String>,
}

static ASK: LazyLock<String> = LazyLock::new(|| {
    let row = numbered("session_label, epoch, command, message, created_at");
    insert("session_commands", &row) + " RETURNING id"
});
static ANSWER: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("taken", "?2"), ("message", "NULL")]);
    format!("UPDATE session_commands SET {change} WHERE id = ?1")
});

pub(crate) fn ask(
    connection: &Connection,
    claim: &Claim,
    label: &str,
    command: &SessionCommand,
) -> Stored<(i64, i64)> {
    let failed = |error| sqlite(&format!("command the run of session `{label}`"), &error);
    let epoch: Option<i64> = connection
        .prepare_cached("SELECT epoch FROM session_leases WHERE session_label = ?1")
        .and_then(|mut statement| statement.query_row((label,), |row| row.get(0)).optional())
        .map_err(failed)?;
    let Some(epoch) = epoch else { return Err(not_running(label)) };
    if !claim.runs(connection, label, epoch)? {
        return Err(not_running(label));
    }
    let now = claim.clock.now_ms();
    connection
        .prepare_cached("DELETE FROM session_commands WHERE created_at NOT BETWEEN ?1 AND ?2")
        .and_then(|mut statement| statement.execute((now - FORGOTTEN_MS, now + FORGOTTEN_MS)))
        .map_err(failed)?;
    let (name, message) = match command {
        SessionCommand::Abort => ("abort", None),
        SessionCommand::Steer(message) => ("steer", Some(message)),
    };
    let id = connection
        .prepare_cached(&ASK)
        .and_then(|mut statement| {
            statement.query_row((label, epoch, name, message, now), |row| row.get(0))
        })
        .map_err(failed)?;
    Ok((id, epoch))
}

pub(crate) fn answer_of(connection: &Connection, id: i64) -> Stored<Option<bool>> {
    connection
        .prepare_cached("SELECT taken FROM session_commands WHERE id = ?1")
        .and_then(|mut statement| statement.query_row((id,), |row| row.get(0)))
        .map_err(|error| sqlite("read what came of a command", &error))
}

pub(crate) fn delete(connection: &Connection, id: i64) -> Stored<()> {
    connection
        .prepare_cached("DELETE FROM session_commands WHERE id = ?1")
        .and_then(|mut statement| statement.execute((id,)))
        .map(drop)
        .map_err(|error| sqlite("take a command away", &error))
}

/// The commands that nobody has answered, oldest first.
pub(crate) fn open(connection: &Connection) -> Stored<Vec<OpenCommand>> {
    let failed = |error| sqlite("read the commands of other processes", &error);
    let mut statement = connection
        .prepare_cached(
            "SELECT id, session_label, epoch, message FROM session_commands WHERE taken IS NULL
             ORDER BY id",
        )
        .map_err(failed)?;
    let rows = statement
        .query_map((), |row| {
            Ok(OpenCommand {
                id: row.get(0)?,
                label: row.get(1)?,
                epoch: row.get(2)?,
                message: row.get(3)?,
            })
        })
        .map_err(failed)?;
    rows.collect::<Result<_, _>>().map_err(failed)
}

pub(crate) fn answer(connection: &Connection, id: i64, taken: bool) -> Stored<()> {
    connection
        .prepare_cached(&ANSWER)
        .and_then(|mut statement| statement.execute((id, taken)))
        .map(drop)
        .map_err(|error| sqlite("answer a command", &error))
}

pub(crate) fn not_running(label: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::NotRunning,
        format!("no run is under way in session `{label}`; start one"),
    )
}
