//! Clears the journal after the commits: events of ended runs move to `event_archive`; entries that are no longer needed are
//! deleted, and so are expired events.
//!
//! Each call does a small part. It must never delete an entry of a turn that is open, nor the newest entry of all.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, params};

use crate::journal_codec::{EventBatch, pack};
use crate::journal_rows::event_rows::{archived_through, pieces, read_some};
use crate::journal_rows::run_rows::{self, RunRow};
use crate::sqlite::checksum::{insert, numbered};
use crate::sqlite::error::{Stored, damaged, sqlite};
use crate::sqlite::sql;
use model::{Retention, StorageError, StorageErrorKind};

/// Runs that one slice archives, and bytes of their events.
const RUNS: i64 = 64;
const SLICE: usize = 512 << 10;
/// Bytes of events in one piece of the archive.
const PIECE: usize = 64 << 10;
/// Entries that one slice deletes.
const SWEPT: i64 = 2_048;
/// An open run whose first entry is this many ids old no longer stops the deletion of later entries.
const LONG_RUN: i64 = 4_096;
/// Pieces of the archive that one job of retention deletes.
const TRIMMED: i64 = 256;

static ADD: LazyLock<String> =
    LazyLock::new(|| insert("event_archive", &numbered("key, seq, events")));

fn failed(error: &rusqlite::Error) -> StorageError {
    sqlite("archive the events of ended runs", error)
}

/// How far the journal is swept: every entry before `swept` belongs to an open run, or to a run with unreadable events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sweep {
    swept: i64,
}

/// The next slice; true when there is more to do.
pub(crate) fn slice(connection: &Connection, sweep: &mut Sweep) -> Stored<bool> {
    let mut budget = SLICE;
    let runs = run_rows::ended(connection, RUNS)?;
    for run in &runs {
        if !archive(connection, run, &mut budget)? {
            return Ok(true);
        }
        if run.n < sweep.swept {
            delete_entries(connection, run)?;
        }
    }
    if !runs.is_empty() && !run_rows::ended(connection, 1)?.is_empty() {
        return Ok(true);
    }
    delete_swept(connection, sweep)
}

/// Whether there is something to archive, of this process or of one that crashed.
pub(crate) fn is_due(connection: &Connection) -> Stored<bool> {
    Ok(!run_rows::ended(connection, 1)?.is_empty())
}

/// Archives the events of an ended run; false if the slice has too few bytes left for all of them.
fn archive(connection: &Connection, run: &RunRow, budget: &mut usize) -> Stored<bool> {
    if !run.keeps_events {
        run_rows::remove(connection, run.n)?;
        return Ok(true);
    }
    let mut last = archived_through(connection, run)?;
    loop {
        if *budget == 0 {
            return Ok(false);
        }
        let (events, is_whole) = match read_some(connection, run, last, PIECE) {
            Err(error) if error.kind == StorageErrorKind::Corrupt => {
                run_rows::mark_unarchivable(connection, run)?;
                return Ok(true);
            }
            read => read?,
        };
        let mut batch = EventBatch::default();
        for event in &events {
            if batch.size() > PIECE {
                *budget = budget.saturating_sub(batch.size());
                add(connection, run.n, &std::mem::take(&mut batch))?;
            }
            if !batch.add(event) {
                return Err(damaged("the events of a run do not follow each other"));
            }
            last = event.seq;
        }
        if !batch.is_empty() {
            *budget = budget.saturating_sub(batch.size());
            add(connection, run.n, &batch)?;
        }
        if is_whole {
            run_rows::archived(connection, run.n)?;
            return Ok(true);
        }
    }
}

fn add(connection: &Connection, run: i64, batch: &EventBatch) -> Stored<()> {
    let (from, to) = pieces(run);
    let key: i64 = connection
        .prepare_cached(
            "SELECT coalesce(max(key) + 1, ?1) FROM event_archive WHERE key BETWEEN ?1 AND ?2",
        )
        .and_then(|mut statement| statement.query_row((from, to), |row| row.get(0)))
        .map_err(|error| failed(&error))?;
    connection
        .prepare_cached(&ADD)
        .and_then(|mut statement| {
            let piece = pack(&batch.content());
            statement.execute((key, batch.last().cast_signed(), piece))
        })
        .map(drop)
        .map_err(|error| failed(&error))
}

/// Deletes the entries of one run, between those of other runs.
fn delete_entries(connection: &Connection, run: &RunRow) -> Stored<()> {
    connection
        .prepare_cached(
            "DELETE FROM journal WHERE id BETWEEN ?1 AND ?2 AND run = ?1 AND id < (SELECT max(id) FROM journal)",
        )
        .and_then(|mut statement| statement.execute((run.n, run.last_entry())))
        .map(drop)
        .map_err(|error| failed(&error))
}

/// Deletes entries that no run needs, up to the first one that is needed; true when there is more.
fn delete_swept(connection: &Connection, sweep: &mut Sweep) -> Stored<bool> {
    let newest: Option<i64> = connection
        .prepare_cached("SELECT max(id) FROM journal")
        .and_then(|mut statement| statement.query_row((), |row| row.get(0)))
        .map_err(|error| failed(&error))?;
    let Some(newest) = newest else { return Ok(false) };
    let upto: i64 = connection
        .prepare_cached(
            "SELECT min(coalesce(min(n), ?1), ?1) FROM runs INDEXED BY runs_in_journal
             WHERE in_journal = 1 AND n > ?2",
        )
        .and_then(|mut statement| {
            statement.query_row((newest, newest - LONG_RUN), |row| row.get(0))
        })
        .map_err(|error| failed(&error))?;
    if upto <= sweep.swept {
        return Ok(false);
    }
    let end: Option<i64> = connection
        .prepare_cached(
            "SELECT id FROM journal WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 1 OFFSET ?3",
        )
        .and_then(|mut statement| {
            statement.query_row((sweep.swept, upto, SWEPT), |row| row.get(0)).optional()
        })
        .map_err(|error| failed(&error))?;
    connection
        .prepare_cached(
            "DELETE FROM journal WHERE id >= ?1 AND id < ?2
               AND run NOT IN (SELECT n FROM runs INDEXED BY runs_in_journal WHERE in_journal = 1)",
        )
        .and_then(|mut statement| statement.execute((sweep.swept, end.unwrap_or(upto))))
        .map_err(|error| failed(&error))?;
    sweep.swept = end.unwrap_or(upto);
    Ok(end.is_some())
}

/// Runs expire in the order of their beginnings, so that no index of their ends is needed.
pub(crate) const OLDEST: &str = "SELECT turn_id, ended_at FROM runs WHERE n > 0 AND ended_at IS NOT NULL \
     AND keeps_events = 1 ORDER BY n LIMIT 1";
pub(crate) const EXCESS: &str = "SELECT 1 FROM runs WHERE n > 0 AND ended_at IS NOT NULL AND keeps_events = 1 \
     ORDER BY n DESC LIMIT 1 OFFSET ?1";

/// The turn of the oldest ended run, if its events have expired.
pub(crate) fn expired(
    connection: &Connection,
    retention: &Retention,
    now: i64,
) -> Stored<Option<String>> {
    let doing = "find old events";
    let oldest: Option<(String, i64)> = sql::optional(connection, OLDEST, (), doing)?;
    let Some((turn_id, ended_at)) = oldest else { return Ok(None) };
    let age = i64::try_from(retention.age.as_millis()).unwrap_or(i64::MAX);
    let is_excess = |turns: u32| sql::exists(connection, EXCESS, (turns,), doing);
    let is_expired = ended_at <= now.saturating_sub(age)
        || retention.turns.map(is_excess).transpose()?.unwrap_or_default();
    Ok(is_expired.then_some(turn_id))
}

/// Deletes a few pieces of the events of an expired run. True when there may be more.
pub(crate) fn trim(connection: &Connection, retention: &Retention, now: i64) -> Stored<bool> {
    let Some(turn_id) = expired(connection, retention, now)? else { return Ok(false) };
    let Some(run) = run_rows::of_turn(connection, &turn_id)? else { return Ok(false) };
    let (from, to) = pieces(run.n);
    let gone = connection
        .prepare_cached(
            "DELETE FROM event_archive WHERE key IN
               (SELECT key FROM event_archive WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3)",
        )
        .and_then(|mut statement| statement.execute(params![from, to, TRIMMED]))
        .map_err(|error| sqlite("delete old events", &error))?;
    if i64::try_from(gone).unwrap_or(i64::MAX) < TRIMMED {
        if !run.is_archived() {
            delete_entries(connection, &run)?;
        }
        run_rows::remove(connection, run.n)?;
    }
    Ok(true)
}
