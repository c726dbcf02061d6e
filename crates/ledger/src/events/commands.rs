//! Abort and steering of a run, here or in another process: a row that the run's process reads, and answers.
//!
//! A command is meant for one lease. It must never reach a run that came after the one it was meant for, nor reach one twice.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use crate::events::command_rows::{self, OpenCommand, answer, answer_of, delete, not_running};
use crate::events::poller::Poller;
use crate::events::runs::Runs;
use crate::lease::claim::Claim;
use crate::sqlite::error::Stored;
use crate::sqlite::readers::{self, Readers};
use crate::sqlite::writer::Writer;
use model::SessionCommand;

/// How often it is checked that the process of the run still lives.
const ALIVE: Duration = Duration::from_millis(250);

/// What [`send`] and [`carry_out`] need of an open ledger.
pub(crate) struct CommandParts<'a> {
    pub(crate) claim: &'a Claim,
    pub(crate) writer: &'a Writer,
    pub(crate) readers: &'a Arc<Readers>,
    pub(crate) runs: &'a Runs,
    pub(crate) poller: &'a Arc<Poller>,
}

/// Sends a command to the run that is under way in the session, in any process. False where the run accepts no message any
/// more, or compacts.
///
/// # Errors
/// `not_running`; any of storage.
pub(crate) async fn send(
    parts: CommandParts<'_>,
    label: &str,
    command: SessionCommand,
) -> Stored<bool> {
    let CommandParts { claim, writer, readers, runs, poller } = parts;
    if let Some(run) = runs.of_session(label).and_then(|entry| entry.run.upgrade()) {
        return Ok(match command {
            SessionCommand::Abort => {
                run.abort();
                true
            }
            SessionCommand::Steer(message) => run.steer(&message),
        });
    }
    let mut follower = poller.follow();
    let (name, own) = (label.to_owned(), claim.clone());
    let add = move |connection: &Connection| command_rows::add(connection, &own, &name, &command);
    let (id, epoch) = writer.submit(add).await?;
    let answer = loop {
        let (name, own) = (label.to_owned(), claim.clone());
        let read = move |connection: &Connection| {
            let taken = answer_of(connection, id)?;
            Ok((taken, own.runs(connection, &name, epoch)?))
        };
        match readers.run(|connection| readers::snapshot(connection, read)).await {
            Ok((Some(taken), _)) => break Ok(taken),
            Ok((None, false)) => break Err(not_running(label)),
            Ok((None, true)) => {}
            Err(error) => break Err(error),
        }
        // A process that was killed changes nothing.
        let _ = tokio::time::timeout(ALIVE, follower.changed()).await;
    };
    writer.submit(move |connection| delete(connection, id)).await?;
    answer
}

/// Passes a command to its run, where that is one of this process, and answers it: both in the writer, so that the answer
/// never comes after the run's end. False for a run that is not of this process, or not yet.
pub(crate) fn carry_out(runs: &Runs, writer: &Writer, command: OpenCommand) -> bool {
    let entry = runs.of_session(&command.session_label);
    let Some(run) =
        entry.filter(|entry| entry.epoch() == command.epoch).and_then(|entry| entry.run.upgrade())
    else {
        return false;
    };
    let mut taken = None;
    drop(writer.submit(move |connection| {
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
