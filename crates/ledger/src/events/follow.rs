//! Reading stored events from any number on, page by page: of one run, or of the runs of a session.
//!
//! A page is requested when the last one was delivered, so nothing piles up for a slow reader. A run of this process is
//! followed in memory, one of another by watching the file. It must never report that a run goes on whose process has ended.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use rusqlite::Connection;

use crate::events::event_lines::json;
use crate::events::event_log;
use crate::events::runs::Runs;
use crate::lease::claim::Claim;
use crate::lease::owner::Owner;
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{Cursor, EventPage, Follows, RunEvent, SessionPage, StorageError, StorageErrorKind};

/// Rows of one page.
const ROWS: i64 = 64;

/// A row of `event_logs`, as a reader of events needs it.
struct Log {
    id: i64,
    turn_id: String,
    run_id: String,
    ended_at: Option<i64>,
    session_label: String,
    owner: Option<Owner>,
}

columns!(Log { id, turn_id, run_id, ended_at, session_label, owner: Option<Owner> });

impl Log {
    fn has_ended(&self) -> bool {
        self.ended_at.is_some()
    }
}

static OF_RUN: LazyLock<String> = LazyLock::new(|| logs_of("run_id = ?1 ORDER BY id DESC LIMIT 1"));
static OF_TURN: LazyLock<String> = LazyLock::new(|| logs_of("turn_id = ?1"));
static OF_SESSION: LazyLock<String> =
    LazyLock::new(|| logs_of("session_label = ?1 AND id >= ?2 ORDER BY id"));

fn logs_of(condition: &str) -> String {
    format!("SELECT {} FROM event_logs WHERE {condition}", list::<Log>())
}

pub(crate) fn page(turn_id: String, after: u64, events: &[RunEvent], over: bool) -> EventPage {
    EventPage {
        turn_id,
        events: events.iter().map(json).collect(),
        last: events.last().map_or(after, |event| event.seq),
        over,
    }
}

/// What the file has of a run.
pub(crate) struct Found {
    pub(crate) page: EventPage,
    /// The run has no end in the file, and nobody runs it any more.
    pub(crate) interrupted: bool,
}

pub(crate) fn events_after(
    claim: &Claim,
    runs: &Arc<Runs>,
    of: Follows,
    after: u64,
) -> impl FnOnce(&Connection) -> Stored<Found> + Send + 'static {
    let (claim, runs) = (claim.clone(), Arc::clone(runs));
    move |connection| {
        let Some(log) = find(connection, &of)? else { return Err(no_events(connection, &of)?) };
        let (events, whole) = event_log::read(connection, log.id, after, ROWS)?;
        let ended = log.has_ended();
        let interrupted = whole && !ended && !is_live(connection, &log, &claim, &runs)?;
        Ok(Found { page: page(log.turn_id, after, &events, whole && ended), interrupted })
    }
}

fn find(connection: &Connection, of: &Follows) -> Stored<Option<Log>> {
    let (select, value) = match of {
        Follows::Run(run) => (&OF_RUN, run),
        Follows::Turn(turn) => (&OF_TURN, turn),
    };
    sql::optional(connection, select, (value,), "read the log of a run's events")
}

/// Why there are no events.
fn no_events(connection: &Connection, of: &Follows) -> Stored<StorageError> {
    let (select, value) = match of {
        Follows::Run(run) => ("SELECT 1 FROM turns WHERE run_id = ?1 LIMIT 1", run),
        Follows::Turn(turn) => ("SELECT 1 FROM turns WHERE id = ?1 LIMIT 1", turn),
    };
    Ok(if sql::exists(connection, select, (value,), "find a run")? {
        StorageError::new(
            StorageErrorKind::EventsExpired,
            format!("the events of run `{value}` are not stored, or not any more; read its turn"),
        )
    } else {
        StorageError::new(
            StorageErrorKind::UnknownRun,
            format!("the ledger has no run `{value}`; pass the id of a run that has begun"),
        )
    })
}

/// Whether the file has no events of a run.
pub(crate) fn has_no_events(error: &StorageError) -> bool {
    matches!(error.kind, StorageErrorKind::UnknownRun | StorageErrorKind::EventsExpired)
}

/// Whether a run that has not ended is under way somewhere, or waits for its session.
fn is_live(connection: &Connection, log: &Log, claim: &Claim, runs: &Runs) -> Stored<bool> {
    let select = "SELECT epoch FROM open_turns WHERE turn_id = ?1";
    let epoch: Option<i64> =
        sql::optional(connection, select, (&log.turn_id,), "read the turns under way")?;
    if let Some(epoch) = epoch
        && claim.runs(connection, &log.session_label, epoch)?
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
    let first = cursor.is_none();
    let Cursor(newest, open) = cursor.unwrap_or_default();
    let oldest = open.iter().map(|(id, _)| *id).chain([newest + 1]).min().unwrap_or_default();
    let seen: BTreeMap<i64, u64> = open.into_iter().collect();
    let logs: Vec<Log> =
        sql::all(connection, &OF_SESSION, (label, oldest), "read the runs of a session")?;
    let before = newest;
    let newest = logs.last().map_or(newest, |log| log.id.max(newest));
    // A session has one run at a time: those that have ended came before the one that has not.
    let (ended, open): (Vec<Log>, Vec<Log>) = logs
        .into_iter()
        .filter(|log| {
            if first { !log.has_ended() } else { log.id > before || seen.contains_key(&log.id) }
        })
        .partition(Log::has_ended);
    let mut page = SessionPage { cursor: Cursor(newest, Vec::new()), events: Vec::new() };
    let mut full = false;
    for log in ended.into_iter().chain(open) {
        let mut last = seen.get(&log.id).copied().unwrap_or_default();
        if full {
            page.cursor.1.push((log.id, last));
            continue;
        }
        let (events, whole) = event_log::read(connection, log.id, last, ROWS)?;
        last = events.last().map_or(last, |event| event.seq);
        page.events.extend(
            events.iter().map(|event| (log.run_id.clone(), log.turn_id.clone(), json(event))),
        );
        if !log.has_ended() || !whole {
            page.cursor.1.push((log.id, last));
        }
        // The next page continues here, before the runs that came later.
        full = !whole;
    }
    Ok(page)
}
