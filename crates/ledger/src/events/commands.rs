//! Abort and steering of a run in another process: a row that its process looks at, and answers.
//!
//! A command is meant for one lease. It must never reach a run that came after the one it was meant for, nor reach one twice.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use crate::handle::ledger::Ledger;
use crate::lease::claim::Claim;
use crate::open::registry::Core;
use crate::sqlite::checksum::{insert, numbered, set};
use crate::sqlite::error::{Stored, sqlite};
use crate::sqlite::readers;
use model::{SessionCommand, StorageError, StorageErrorKind};

/// Commands that nobody took away: who asked has ended.
const FORGOTTEN_MS: i64 = 600_000;
/// How often a process that does not answer is looked for.
const ALIVE: Duration = Duration::from_millis(250);

/// A command that waits for its run.
pub(crate) struct Open {
    pub(crate) id: i64,
    label: String,
    epoch: i64,
    message: Option<String>,
}

static ASK: LazyLock<String> = LazyLock::new(|| {
    let row = numbered("session_label, epoch, command, message, created_at");
    insert("session_commands", &row) + " RETURNING id"
});
static ANSWER: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("taken", "?2"), ("message", "NULL")]);
    format!("UPDATE session_commands SET {change} WHERE id = ?1")
});

impl Ledger {
    /// Hands a command to the run that is under way in the session, in whatever process. False where it takes no message
    /// any more, or compacts.
    ///
    /// # Errors
    /// `not_running`; any of storage.
    pub async fn command(
        &self,
        label: &str,
        command: SessionCommand,
    ) -> Result<bool, StorageError> {
        let core = self.core()?;
        if let Some(run) = core.runs.of_session(label).and_then(|entry| entry.run.upgrade()) {
            return Ok(match command {
                SessionCommand::Abort => {
                    run.abort();
                    true
                }
                SessionCommand::Steer(message) => run.steer(&message),
            });
        }
        let mut follower = core.pulse.follow(&core);
        let (name, claim) = (label.to_owned(), core.claim.clone());
        let asked = move |connection: &Connection| ask(connection, &claim, &name, &command);
        let (id, epoch) = core.writer.submit(asked).await?;
        let answer = loop {
            let (name, claim) = (label.to_owned(), core.claim.clone());
            let read = move |connection: &Connection| {
                let taken = answer_of(connection, id)?;
                Ok((taken, claim.runs(connection, &name, epoch)?))
            };
            match core.readers.run(|connection| readers::snapshot(connection, read)).await {
                Ok((Some(taken), _)) => break Ok(taken),
                Ok((None, false)) => break Err(not_running(label)),
                Ok((None, true)) => {}
                Err(error) => break Err(error),
            }
            // A process that was killed changes nothing.
            let _ = tokio::time::timeout(ALIVE, follower.changed()).await;
        };
        core.writer.submit(move |connection| take_away(connection, id)).await?;
        answer
    }
}

fn ask(
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

fn answer_of(connection: &Connection, id: i64) -> Stored<Option<bool>> {
    connection
        .prepare_cached("SELECT taken FROM session_commands WHERE id = ?1")
        .and_then(|mut statement| statement.query_row((id,), |row| row.get(0)))
        .map_err(|error| sqlite("read what came of a command", &error))
}

fn take_away(connection: &Connection, id: i64) -> Stored<()> {
    connection
        .prepare_cached("DELETE FROM session_commands WHERE id = ?1")
        .and_then(|mut statement| statement.execute((id,)))
        .map(drop)
        .map_err(|error| sqlite("take a command away", &error))
}

/// The commands that nobody has answered, oldest first.
pub(crate) fn open(connection: &Connection) -> Stored<Vec<Open>> {
    let failed = |error| sqlite("read the commands of other processes", &error);
    let mut statement = connection
        .prepare_cached(
            "SELECT id, session_label, epoch, message FROM session_commands WHERE taken IS NULL
             ORDER BY id",
        )
        .map_err(failed)?;
    let rows = statement
        .query_map((), |row| {
            Ok(Open {
                id: row.get(0)?,
                label: row.get(1)?,
                epoch: row.get(2)?,
                message: row.get(3)?,
            })
        })
        .map_err(failed)?;
    rows.collect::<Result<_, _>>().map_err(failed)
}

/// Hands a command to its run, where that is one of this process, and answers it: both in the writer, so that the answer
/// never comes after the run's end. False for a run that is not of this process, or not yet.
pub(crate) fn carry_out(core: &Arc<Core>, command: Open) -> bool {
    let entry = core.runs.of_session(&command.label);
    let Some(run) =
        entry.filter(|entry| entry.epoch() == command.epoch).and_then(|entry| entry.run.upgrade())
    else {
        return false;
    };
    let mut taken = None;
    drop(core.writer.submit(move |connection| {
        // A job may be run again.
        let taken = *taken.get_or_insert_with(|| match &command.message {
            None => {
                run.abort();
                true
            }
            Some(message) => run.steer(message),
        });
        answer(connection, command.id, taken)
    }));
    true
}

fn answer(connection: &Connection, id: i64, taken: bool) -> Stored<()> {
    connection
        .prepare_cached(&ANSWER)
        .and_then(|mut statement| statement.execute((id, taken)))
        .map(drop)
        .map_err(|error| sqlite("answer a command", &error))
}

fn not_running(label: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::NotRunning,
        format!("no run is under way in session `{label}`; start one"),
    )
}
