//! Reading kept events from any number on, and waiting for more: of one run, or of whatever runs in a session.
//!
//! A page is asked for when the last one was taken, so nothing piles up for a slow reader. A run of this process is followed
//! in memory, one of another by watching the file. It must never say that a run goes on whose process is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};

use crate::events::event_log;
use crate::events::runs::Runs;
use crate::lease::claim::Claim;
use crate::lease::owner::Owner;
use crate::sqlite::error::{Stored, sqlite};
use model::{Cursor, EventPage, Follows, RunEvent, SessionPage, StorageError, StorageErrorKind};

/// Rows of one page.
const ROWS: i64 = 64;

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

pub(crate) fn page(turn_id: String, after: u64, told: &[RunEvent], over: bool) -> EventPage {
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
    claim: &Claim,
    runs: &Arc<Runs>,
    of: Follows,
    after: u64,
) -> impl FnOnce(&Connection) -> Stored<Found> + Send + 'static {
    let (claim, runs) = (claim.clone(), Arc::clone(runs));
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

pub(crate) fn is_unkept(error: &StorageError) -> bool {
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

/// The page of a session's runs after `cursor`.
pub(crate) fn session_after(
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
