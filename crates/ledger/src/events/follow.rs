//! Reading kept events from any number on, and waiting for more: of one run, or of whatever runs in a session.
//!
//! A page is asked for when the last one was taken, so nothing piles up for a slow reader. A run of this process is followed
//! in memory, one of another by watching the file. It must never say that a run goes on whose process is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use crate::events::event_log;
use crate::events::runs::Runs;
use crate::handle::ledger::Ledger;
use crate::lease::claim::Claim;
use crate::lease::owner::Owner;
use crate::open::registry::Core;
use crate::sqlite::error::{Stored, sqlite};
use crate::sqlite::readers;
use model::{RunEvent, StorageError, StorageErrorKind};

/// Rows of one page.
const ROWS: i64 = 64;
/// How often a process that tells nothing is looked for: a killed one changes nothing.
const ALIVE: Duration = Duration::from_millis(250);

/// What is followed.
#[derive(Debug, Clone)]
pub enum Follows {
    /// The newest run with the host's id.
    Run(String),
    /// The turn.
    Turn(String),
}

/// Events of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// The run's turn.
    pub turn_id: String,
    /// JSON of each event.
    pub events: Vec<String>,
    /// The number of the last one.
    pub last: u64,
    /// Nothing comes after these: the run has ended, or its process is gone.
    pub over: bool,
}

/// How far a session's runs were told: the newest one, and those of them that go on, each with its last event.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Cursor(i64, Vec<(i64, u64)>);

/// Events of a session's runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPage {
    /// Where the next page begins.
    pub cursor: Cursor,
    /// The run, its turn and the JSON of each event.
    pub events: Vec<(String, String, String)>,
}

/// The log of a run.
struct Log {
    id: i64,
    turn_id: String,
    run_id: String,
    ended: bool,
    owner: Option<Owner>,
    label: String,
}

const LOG: &str = "SELECT id, turn_id, run_id, ended_at IS NOT NULL, session_label, owner, pid, pid_started, pid_space,
     boot_id FROM event_logs";

impl Ledger {
    /// The events of a run after number `after`; waits until there are some, or it is known that none come.
    ///
    /// # Errors
    /// `unknown_run`, `events_expired`; any of storage.
    pub async fn follow(&self, of: Follows, after: u64) -> Result<EventPage, StorageError> {
        let core = self.core()?;
        let (mut follower, mut of, mut doubted) = (None, of, false);
        loop {
            let entry = match &of {
                Follows::Turn(turn) => core.runs.entry(turn),
                Follows::Run(run) => core.runs.of_run(run),
            };
            if let Some(entry) = &entry {
                of = Follows::Turn(entry.names.turn_id.clone());
            }
            let begins = entry.as_ref().is_some_and(|entry| entry.keeps);
            let mut told = entry.as_ref().map(|entry| entry.subscribe());
            if let Some((entry, told)) = entry.zip(told.as_mut()) {
                match entry.recent(after) {
                    Some(recent) if recent.is_empty() => {
                        // Dropped with the entry, it says so at once: the run has ended.
                        drop(entry);
                        let _ = tokio::time::timeout(ALIVE, told.changed()).await;
                        continue;
                    }
                    Some(recent) => {
                        let turn_id = entry.names.turn_id.clone();
                        return Ok(page(turn_id, after, &recent, false));
                    }
                    None => {}
                }
            }
            // Watched from before the read, so that nothing falls between.
            let follower = follower.get_or_insert_with(|| core.pulse.follow(&core));
            let read = events_after(&core, of.clone(), after);
            match core.readers.run(|connection| readers::snapshot(connection, read)).await {
                Ok(Found { page, .. }) if page.over || !page.events.is_empty() => return Ok(page),
                // It was under way in what was read and is not now: it may have ended in between, and its end is not read.
                Ok(found) if found.gone && !std::mem::replace(&mut doubted, true) => continue,
                Ok(Found { page, gone: true }) => return Ok(EventPage { over: true, ..page }),
                // A run that has just begun has told nothing that is in the file.
                Err(error) if !(begins && is_unkept(&error)) => {
                    return Err(error);
                }
                Ok(_) | Err(_) => {}
            }
            let _ = tokio::time::timeout(ALIVE, follower.changed()).await;
        }
    }

    /// The events of a session's runs after `cursor`, by run in order; waits until there are some. Without a cursor the
    /// runs under way are told from their beginning.
    ///
    /// # Errors
    /// Any of storage.
    pub async fn watch(
        &self,
        label: &str,
        cursor: Option<Cursor>,
    ) -> Result<SessionPage, StorageError> {
        let core = self.core()?;
        let mut follower = core.pulse.follow(&core);
        let first = cursor.is_none();
        let mut cursor = cursor;
        loop {
            let (label, from) = (label.to_owned(), cursor.take());
            let read = move |connection: &Connection| session_after(connection, &label, from);
            let page = core.readers.run(|connection| readers::snapshot(connection, read)).await?;
            if first || !page.events.is_empty() {
                return Ok(page);
            }
            cursor = Some(page.cursor);
            follower.changed().await;
        }
    }

    /// The number of the newest kept event of a turn; 0 for none.
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
}

fn page(turn_id: String, after: u64, told: &[RunEvent], over: bool) -> EventPage {
    EventPage {
        turn_id,
        events: told.iter().map(event_log::json).collect(),
        last: told.last().map_or(after, |told| told.seq),
        over,
    }
}

/// What the file has of a run.
pub(crate) struct Found {
    pub(crate) page: EventPage,
    /// The run has no end in the file, and nobody runs it any more.
    pub(crate) gone: bool,
}

pub(crate) fn events_after(
    core: &Arc<Core>,
    of: Follows,
    after: u64,
) -> impl FnOnce(&Connection) -> Stored<Found> + Send + 'static {
    let (claim, runs) = (core.claim.clone(), Arc::clone(&core.runs));
    move |connection| {
        let Some(log) = find(connection, &of)? else { return Err(unkept(connection, &of)?) };
        let (told, whole) = event_log::read(connection, log.id, after, ROWS)?;
        let gone = whole && !log.ended && !is_live(connection, &log, &claim, &runs)?;
        Ok(Found { page: page(log.turn_id, after, &told, whole && log.ended), gone })
    }
}

fn log(row: &rusqlite::Row<'_>) -> rusqlite::Result<Log> {
    Ok(Log {
        id: row.get(0)?,
        turn_id: row.get(1)?,
        run_id: row.get(2)?,
        ended: row.get(3)?,
        label: row.get(4)?,
        owner: Owner::of_row(row, 5)?,
    })
}

fn find(connection: &Connection, of: &Follows) -> Stored<Option<Log>> {
    let (by, value) = match of {
        Follows::Run(run) => ("run_id = ?1 ORDER BY id DESC LIMIT 1", run),
        Follows::Turn(turn) => ("turn_id = ?1", turn),
    };
    connection
        .prepare_cached(&format!("{LOG} WHERE {by}"))
        .and_then(|mut statement| statement.query_row((value,), log).optional())
        .map_err(|error| sqlite("read the log of a run's events", &error))
}

/// Why there are no events.
fn unkept(connection: &Connection, of: &Follows) -> Stored<StorageError> {
    let (column, value) = match of {
        Follows::Run(run) => ("run_id", run),
        Follows::Turn(turn) => ("id", turn),
    };
    let known = connection
        .prepare_cached(&format!("SELECT 1 FROM turns WHERE {column} = ?1 LIMIT 1"))
        .and_then(|mut statement| statement.exists((value,)))
        .map_err(|error| sqlite("look for a run", &error))?;
    Ok(if known {
        StorageError::new(
            StorageErrorKind::EventsExpired,
            format!("the events of run `{value}` are not kept, or not any more; read its turn"),
        )
    } else {
        StorageError::new(
            StorageErrorKind::UnknownRun,
            format!("the ledger has no run `{value}`; pass the id of a run that has begun"),
        )
    })
}

fn is_unkept(error: &StorageError) -> bool {
    matches!(error.kind, StorageErrorKind::UnknownRun | StorageErrorKind::EventsExpired)
}

/// Whether a run that has not ended is under way somewhere, or waits for its session.
fn is_live(connection: &Connection, log: &Log, claim: &Claim, runs: &Runs) -> Stored<bool> {
    let epoch: Option<i64> = connection
        .prepare_cached("SELECT epoch FROM open_turns WHERE turn_id = ?1")
        .and_then(|mut statement| statement.query_row((&log.turn_id,), |row| row.get(0)).optional())
        .map_err(|error| sqlite("read the turns under way", &error))?;
    if let Some(epoch) = epoch
        && claim.runs(connection, &log.label, epoch)?
    {
        return Ok(true);
    }
    if runs.entry(&log.turn_id).is_some() {
        // It waits for its session, or takes an interrupted turn over.
        return Ok(true);
    }
    Ok(epoch.is_none()
        && log
            .owner
            .as_ref()
            .is_some_and(|owner| owner.id != claim.owner.id && !claim.owner.knows_dead(owner)))
}

fn session_after(
    connection: &Connection,
    label: &str,
    cursor: Option<Cursor>,
) -> Stored<SessionPage> {
    let failed = |error| sqlite("read the runs of a session", &error);
    let mut statement = connection
        .prepare_cached(&format!("{LOG} WHERE session_label = ?1 AND id >= ?2 ORDER BY id"))
        .map_err(failed)?;
    let first = cursor.is_none();
    let Cursor(newest, open) = cursor.unwrap_or_default();
    let oldest = open.iter().map(|(id, _)| *id).chain([newest + 1]).min().unwrap_or_default();
    let seen: BTreeMap<i64, u64> = open.into_iter().collect();
    let logs = statement
        .query_map((label, oldest), log)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(failed)?;
    let before = newest;
    let newest = logs.last().map_or(newest, |log| log.id.max(newest));
    // One run of a session goes at a time: what has ended was before what has not.
    let (ended, open): (Vec<Log>, Vec<Log>) = logs
        .into_iter()
        .filter(
            |log| if first { !log.ended } else { log.id > before || seen.contains_key(&log.id) },
        )
        .partition(|log| log.ended);
    let mut page = SessionPage { cursor: Cursor(newest, Vec::new()), events: Vec::new() };
    let mut full = false;
    for log in ended.into_iter().chain(open) {
        let mut last = seen.get(&log.id).copied().unwrap_or_default();
        if full {
            page.cursor.1.push((log.id, last));
            continue;
        }
        let (told, whole) = event_log::read(connection, log.id, last, ROWS)?;
        last = told.last().map_or(last, |told| told.seq);
        page.events.extend(
            told.iter()
                .map(|told| (log.run_id.clone(), log.turn_id.clone(), event_log::json(told))),
        );
        if !log.ended || !whole {
            page.cursor.1.push((log.id, last));
        }
        // The next page goes on here, before what came after it.
        full = !whole;
    }
    Ok(page)
}
