//! The events of runs as a host follows them, and commands to runs.
//!
//! A run of this process is followed in memory, one of another by watching the file. It must never report that a run goes on
//! whose process is gone.

use std::time::Duration;

use rusqlite::Connection;

use crate::events::commands::{self, CommandParts};
use crate::events::event_log;
use crate::events::follow::{self, Found};
use crate::handle::ledger::Ledger;
use crate::sqlite::readers;
use model::{Cursor, EventPage, Follows, SessionCommand, SessionPage, StorageError};

/// How often it is checked that the process of a run still lives: a killed one changes nothing in the file.
const ALIVE: Duration = Duration::from_millis(250);

impl Ledger {
    /// The events of a run after number `after`; waits until there are some, or it is known that none come.
    ///
    /// # Errors
    /// `unknown_run`, `events_expired`; any of storage.
    pub async fn follow(&self, of: Follows, after: u64) -> Result<EventPage, StorageError> {
        let core = self.core()?;
        let (mut follower, mut of, mut reread) = (None, of, false);
        loop {
            let entry = match &of {
                Follows::Turn(turn) => core.runs.entry(turn),
                Follows::Run(run) => core.runs.of_run(run),
            };
            if let Some(entry) = &entry {
                of = Follows::Turn(entry.names.turn_id.clone());
            }
            let begins = entry.as_ref().is_some_and(|entry| entry.stores);
            let mut stored = entry.as_ref().map(|entry| entry.subscribe());
            if let Some((entry, stored)) = entry.zip(stored.as_mut()) {
                match entry.recent(after) {
                    Some(recent) if recent.is_empty() => {
                        // When the run ends, its entry is dropped, and `changed` returns at once.
                        drop(entry);
                        let _ = tokio::time::timeout(ALIVE, stored.changed()).await;
                        continue;
                    }
                    Some(recent) => {
                        let turn_id = entry.names.turn_id.clone();
                        return Ok(follow::page(turn_id, after, &recent, false));
                    }
                    None => {}
                }
            }
            // It watches from before the read, so that no change is missed.
            let follower = follower.get_or_insert_with(|| core.poller.follow());
            let read = follow::events_after(&core.claim, &core.runs, of.clone(), after);
            match core.readers.run(|connection| readers::snapshot(connection, read)).await {
                Ok(Found { page, .. }) if page.over || !page.events.is_empty() => return Ok(page),
                // The snapshot is older than the check of the process: the run may have ended in between, so it is read again.
                Ok(found) if found.interrupted && !std::mem::replace(&mut reread, true) => continue,
                Ok(Found { page, interrupted: true }) => {
                    return Ok(EventPage { over: true, ..page });
                }
                // A run that has just begun has no events in the file yet.
                Err(error) if !(begins && follow::has_no_events(&error)) => {
                    return Err(error);
                }
                Ok(_) | Err(_) => {}
            }
            let _ = tokio::time::timeout(ALIVE, follower.changed()).await;
        }
    }

    /// The events of a session's runs after `cursor`, by run in order; waits until there are some. Without a cursor it begins
    /// with the first events of the runs under way.
    ///
    /// # Errors
    /// Any of storage.
    pub async fn watch(
        &self,
        label: &str,
        cursor: Option<Cursor>,
    ) -> Result<SessionPage, StorageError> {
        let core = self.core()?;
        let mut follower = core.poller.follow();
        let first = cursor.is_none();
        let mut cursor = cursor;
        loop {
            let (label, from) = (label.to_owned(), cursor.take());
            let read =
                move |connection: &Connection| follow::session_after(connection, &label, from);
            let page = core.readers.run(|connection| readers::snapshot(connection, read)).await?;
            if first || !page.events.is_empty() {
                return Ok(page);
            }
            cursor = Some(page.cursor);
            follower.changed().await;
        }
    }

    /// The number of the newest stored event of a turn; 0 for none.
    ///
    /// # Errors
    /// Any of storage.
    pub async fn last_event(&self, turn_id: &str) -> Result<u64, StorageError> {
        let turn_id = turn_id.to_owned();
        let read = move |connection: &mut Connection| {
            let Some(log) = event_log::log_of(connection, &turn_id)? else { return Ok(0) };
            Ok(event_log::tail(connection, log)?.map_or(0, |tail| tail.seq))
        };
        self.core()?.readers.run(read).await
    }

    /// Sends a command to the run that is under way in the session, in any process. False where the run accepts no message
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
        let parts = CommandParts {
            claim: &core.claim,
            writer: &core.writer,
            readers: &core.readers,
            runs: &core.runs,
            poller: &core.poller,
        };
        commands::send(parts, label, command).await
    }
}
