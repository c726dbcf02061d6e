//! Abort and steering of a run, here or in another process: a row that the run's process reads and answers.
//!
//! A command is addressed to one turn under one lease. It must never reach a later run than that one, nor reach a run twice.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use crate::events::command_rows::{self, OpenCommand, answer, answer_of, delete, not_running};
use crate::events::poller::Poller;
use crate::events::runs::Runs;
use crate::journal_rows::running::running_turn;
use crate::lease::claim::Claim;
use crate::lease::held::RunningTurn;
use crate::sqlite::error::Stored;
use crate::sqlite::readers::{self, Readers};
use crate::sqlite::writer::Writer;
use model::SessionCommand;

/// The interval at which a sender checks that the process of the run is alive.
const ALIVE: Duration = Duration::from_millis(250);

/// The parts of an open ledger that [`send`] and [`carry_out`] use.
pub(crate) struct CommandParts<'a> {
    pub(crate) claim: &'a Claim,
    pub(crate) writer: &'a Writer,
    pub(crate) readers: &'a Arc<Readers>,
    pub(crate) runs: &'a Runs,
    pub(crate) poller: &'a Arc<Poller>,
}

/// Sends a command to the run that is under way in the session, in any process. False where the run accepts no more
/// messages, or compacts.
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
    let (id, turn) = writer.submit(add).await?;
    let answer = loop {
        let (name, own, turn) = (label.to_owned(), claim.clone(), turn.clone());
        let read = move |connection: &Connection| {
            let taken = answer_of(connection, id)?;
            Ok((taken, running_turn(connection, &own, &name)? == Some(turn)))
        };
        match readers.run(|connection| readers::snapshot(connection, read)).await {
            Ok((Some(taken), _)) => break Ok(taken),
            Ok((None, false)) => break Err(not_running(label)),
            Ok((None, true)) => {}
            Err(error) => break Err(error),
        }
        // A killed process does not change the file, so the wait has a limit.
        let _ = tokio::time::timeout(ALIVE, follower.changed()).await;
    };
    writer.submit(move |connection| delete(connection, id)).await?;
    answer
}

/// Passes a command to its run, if the run is in this process, and answers it. Both happen in the writer, so that the answer
/// is never written after the run's end. False for a run of another process, or one that has not begun or has ended.
pub(crate) fn carry_out(runs: &Runs, claim: &Claim, writer: &Writer, command: OpenCommand) -> bool {
    let label = &command.session_label;
    let turn = RunningTurn { turn_id: command.turn_id.clone(), epoch: command.epoch };
    if claim.held.running(label).as_ref() != Some(&turn) {
        return false;
    }
    let Some(run) = runs.entry(&turn.turn_id).and_then(|entry| entry.run.upgrade()) else {
        return false;
    };
    let (mut taken, claim) = (None, claim.clone());
    drop(writer.submit(move |connection| {
        if running_turn(connection, &claim, &command.session_label)?.as_ref() != Some(&turn) {
            // Its end was written first.
            return Ok(());
        }
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
