//! The rows of `session_commands`: commands to runs of other processes, and their answers.
//!
//! A command is addressed to one turn under one lease: a lease outlives a turn, and a turn may be resumed under another one.
//! It must never be answered twice.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::journal_rows::running::running_turn;
use crate::lease::claim::Claim;
use crate::lease::held::RunningTurn;
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
    pub(crate) turn_id: String,
    pub(crate) message: Option<String>,
}

columns!(OpenCommand { id, session_label, epoch, turn_id, message });

static ADD: LazyLock<String> = LazyLock::new(|| {
    let row = numbered("session_label, epoch, turn_id, command, message, created_at");
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

/// Writes a command for the turn that runs in the session. Returns the command's id and the turn.
pub(crate) fn add(
    connection: &Connection,
    claim: &Claim,
    label: &str,
    command: &SessionCommand,
) -> Stored<(i64, RunningTurn)> {
    let doing = format_args!("command the run of session `{label}`");
    let Some(turn) = running_turn(connection, claim, label)? else {
        return Err(not_running(label));
    };
    let now = claim.clock.now_ms();
    let delete = "DELETE FROM session_commands WHERE created_at NOT BETWEEN ?1 AND ?2";
    sql::exec(connection, delete, (now - ABANDONED_MS, now + ABANDONED_MS), doing)?;
    let (name, message) = match command {
        SessionCommand::Abort => ("abort", None),
        SessionCommand::Steer(message) => ("steer", Some(message)),
    };
    let row = (label, turn.epoch, &turn.turn_id, name, message, now);
    Ok((sql::one(connection, &ADD, row, doing)?, turn))
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
