//! The next page of events of one run or of the runs of a session; waits until a page exists.
//!
//! A run of this process is followed in memory, a run of another process by watching the file. It must never report a run as
//! under way after its process has ended.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use crate::events::follow::{self, Found};
use crate::events::poller::Poller;
use crate::events::runs::Runs;
use crate::lease::claim::Claim;
use crate::sqlite::error::Stored;
use crate::sqlite::readers::{self, Readers};
use model::{Cursor, EventPage, Follows, SessionPage};

/// The interval at which the process of a run is checked: a killed process changes nothing in the file.
const ALIVE: Duration = Duration::from_millis(250);

/// The parts of an open ledger that following uses.
pub(crate) struct FollowParts<'a> {
    pub(crate) claim: &'a Claim,
    pub(crate) readers: &'a Arc<Readers>,
    pub(crate) runs: &'a Arc<Runs>,
    pub(crate) poller: &'a Arc<Poller>,
}

/// The events of a run after number `after`; waits until there are some, or until it is certain that no more follow.
///
/// # Errors
/// `unknown_run`, `events_expired`; any of storage.
pub(crate) async fn of_run(parts: FollowParts<'_>, of: Follows, after: u64) -> Stored<EventPage> {
    let FollowParts { claim, readers, runs, poller } = parts;
    let (mut follower, mut of, mut reread) = (None, of, false);
    loop {
        let entry = match &of {
            Follows::Turn(turn) => runs.entry(turn),
            Follows::Run(run) => runs.of_run(run),
        };
        if let Some(entry) = &entry {
            of = Follows::Turn(entry.names.turn_id.clone());
        }
        let begins = entry.as_ref().is_some_and(|entry| entry.stores);
        let mut stored = entry.as_ref().map(|entry| entry.subscribe());
        if let Some((entry, stored)) = entry.zip(stored.as_mut()) {
            match entry.recent(after) {
                Some(recent) if recent.is_empty() => {
                    // The channel closes with the entry, which ends the wait: the run has ended.
                    drop(entry);
                    let _ = tokio::time::timeout(ALIVE, stored.changed()).await;
                    continue;
                }
                Some(recent) => {
                    let turn_id = entry.names.turn_id.clone();
                    return Ok(EventPage::of(turn_id, after, &recent, false));
                }
                None => {}
            }
        }
        // The follower starts before the read, so that no change is missed.
        let follower = follower.get_or_insert_with(|| poller.follow());
        let read = follow::events_after(claim, runs, of.clone(), after);
        match readers.run(|connection| readers::snapshot(connection, read)).await {
            Ok(Found { page, .. }) if page.over || !page.events.is_empty() => return Ok(page),
            // The snapshot is older than the check of the process. The run may have ended in between, so the file is read
            // again.
            Ok(found) if found.interrupted && !std::mem::replace(&mut reread, true) => continue,
            Ok(Found { page, interrupted: true }) => return Ok(EventPage { over: true, ..page }),
            // A run that has just begun has no event in the file.
            Err(error) if !(begins && follow::has_no_events(&error)) => {
                return Err(error);
            }
            Ok(_) | Err(_) => {}
        }
        let _ = tokio::time::timeout(ALIVE, follower.changed()).await;
    }
}

/// What `read` finds in a snapshot of the file; reads again after each change until it finds something.
///
/// # Errors
/// Any of storage.
pub(crate) async fn until<T, F>(parts: FollowParts<'_>, read: F) -> Stored<T>
where
    T: Send + 'static,
    F: FnMut(&Connection) -> Stored<Option<T>> + Clone + Send + 'static,
{
    let FollowParts { readers, poller, .. } = parts;
    // The follower starts before the read, so that no change is missed.
    let mut follower = poller.follow();
    loop {
        let read = read.clone();
        let found = readers.run(|connection| readers::snapshot(connection, read)).await?;
        if let Some(found) = found {
            return Ok(found);
        }
        let _ = tokio::time::timeout(ALIVE, follower.changed()).await;
    }
}

/// The events of a session's runs after `cursor`, by run in order; waits until there are some. Without a cursor the
/// events of the runs under way, and of those that began `since`, come from their beginning.
///
/// # Errors
/// Any of storage.
pub(crate) async fn of_session(
    parts: FollowParts<'_>,
    (label, since): (&str, &str),
    mut cursor: Option<Cursor>,
) -> Stored<SessionPage> {
    let FollowParts { readers, poller, .. } = parts;
    let mut follower = poller.follow();
    let first = cursor.is_none();
    loop {
        let (of, from) = ((label.to_owned(), since.to_owned()), cursor.take());
        let read =
            move |connection: &Connection| follow::session_after(connection, (&of.0, &of.1), from);
        let page = readers.run(|connection| readers::snapshot(connection, read)).await?;
        if first || !page.events.is_empty() {
            return Ok(page);
        }
        cursor = Some(page.cursor);
        follower.changed().await;
    }
}
