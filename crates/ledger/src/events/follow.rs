//! Reading stored events from any number on, page by page: of one run, or of the runs of a session.
//!
//! A page is read when the last one was delivered, so no queue grows for a slow reader. A run of this process is followed in
//! memory, a run of another process by watching the file. It must never report a run as under way after its process has
//! ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::Connection;

use crate::events::references;
use crate::events::runs::Runs;
use crate::journal_rows::event_rows;
use crate::journal_rows::run_rows::{self, RunRow, unknown_run};
use crate::journal_rows::run_state::{Live, state};
use crate::lease::claim::Claim;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{Cursor, EventPage, Follows, RunStatus, SessionPage, StorageError, StorageErrorKind};

/// What the file contains of a run.
pub(crate) struct Found {
    pub(crate) page: EventPage,
    /// The run has no end in the file, and no process executes it.
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
        let found = find(connection, &of)?;
        let is_known = found.is_some();
        let Some(run) = found.filter(|run| run.keeps_events) else {
            return Err(no_events(connection, &of, is_known)?);
        };
        let (mut events, whole) = event_rows::read(connection, &run, after)?;
        references::resolve(connection, &run, &mut events)?;
        let ended = run.has_ended();
        let interrupted = whole && !ended && !is_live(connection, &run, &claim, &runs)?;
        Ok(Found { page: EventPage::of(run.turn_id, after, &events, whole && ended), interrupted })
    }
}

fn find(connection: &Connection, of: &Follows) -> Stored<Option<RunRow>> {
    match of {
        Follows::Run(run) => run_rows::of_run(connection, run),
        Follows::Turn(turn) => run_rows::of_turn(connection, turn),
    }
}

/// The error for a run without events; `is_known` for a run that is under way.
fn no_events(connection: &Connection, of: &Follows, is_known: bool) -> Stored<StorageError> {
    let (select, value) = match of {
        Follows::Run(run) => ("SELECT 1 FROM turns WHERE run_id = ?1 LIMIT 1", run),
        Follows::Turn(turn) => ("SELECT 1 FROM turns WHERE id = ?1 LIMIT 1", turn),
    };
    Ok(if is_known || sql::exists(connection, select, (value,), "find a run")? {
        StorageError::new(
            StorageErrorKind::EventsExpired,
            format!("the events of run `{value}` are not stored, or not any more; read its turn"),
        )
    } else {
        unknown_run(value)
    })
}

/// Whether the error means that the file has no events of a run.
pub(crate) fn has_no_events(error: &StorageError) -> bool {
    matches!(error.kind, StorageErrorKind::UnknownRun | StorageErrorKind::EventsExpired)
}

/// Whether a run that has not ended is under way somewhere, or waits for its session.
fn is_live(connection: &Connection, run: &RunRow, claim: &Claim, runs: &Runs) -> Stored<bool> {
    let live = Live { claim, is_here: &|turn| runs.entry(turn).is_some() };
    Ok(state(connection, &live, run)?.0 != RunStatus::Interrupted)
}

/// The page of a session's runs after `cursor`.
pub(crate) fn session_after(
    connection: &Connection,
    (label, since): (&str, &str),
    cursor: Option<Cursor>,
) -> Stored<SessionPage> {
    let first = cursor.is_none();
    let Cursor(before, open) = cursor.unwrap_or_default();
    let oldest = open.iter().map(|(id, _)| *id).chain([before + 1]).min().unwrap_or_default();
    let seen: BTreeMap<i64, u64> = open.into_iter().collect();
    let found = if first {
        let mut found = run_rows::ended_since(connection, label, since)?;
        found.extend(run_rows::open_of_session(connection, label)?);
        found
    } else {
        run_rows::of_session(connection, label, oldest)?
    };
    // The newest run of all sessions: the next page reads no run again that precedes it.
    let newest = run_rows::newest(connection)?.max(before);
    // A session has one run at a time: the ended runs precede the open one.
    let (ended, open): (Vec<RunRow>, Vec<RunRow>) = found
        .into_iter()
        .filter(|run| run.keeps_events)
        .filter(|run| first || run.n > before || seen.contains_key(&run.n))
        .partition(RunRow::has_ended);
    let mut page = SessionPage { cursor: Cursor(newest, Vec::new()), events: Vec::new() };
    let mut full = false;
    for run in ended.into_iter().chain(open) {
        let mut last = seen.get(&run.n).copied().unwrap_or_default();
        if full {
            page.cursor.1.push((run.n, last));
            continue;
        }
        let (mut events, whole) = event_rows::read(connection, &run, last)?;
        references::resolve(connection, &run, &mut events)?;
        last = events.last().map_or(last, |event| event.seq);
        page.events.extend(
            events.iter().map(|event| (run.run_id.clone(), run.turn_id.clone(), event.json())),
        );
        if !run.has_ended() || !whole {
            page.cursor.1.push((run.n, last));
        }
        // The next page continues here, before the later runs.
        full = !whole;
    }
    Ok(page)
}
