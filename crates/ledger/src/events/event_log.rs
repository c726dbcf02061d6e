//! The rows of stored events: adding, ending, reading, and deleting old ones.
//!
//! Rows of a run follow each other without a gap. It must never add an event whose number does not follow the last one.

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use rusqlite::{Connection, params_from_iter};

use crate::events::event_lines::{line, read_line, terminal};
use crate::lease::owner::Owner;
use crate::sqlite::checksum::{Checked, checked, insert_all, set};
use crate::sqlite::columns::{columns, values};
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::{Retention, RunEvent, RunNames, StreamEvent};

/// The bytes up to which a row is extended: about what a page of the file holds.
const ROW: usize = 3_072;
/// Rows that one job deletes.
const TRIMMED: i64 = 256;

/// A row of `event_logs`, as it is written when a run begins.
struct LogColumns<'r> {
    turn_id: &'r str,
    run_id: &'r str,
    session_label: &'r str,
    created_at: i64,
    owner: Option<Owner>,
}

columns!(for<'r> LogColumns<'r> { turn_id, run_id, session_label, created_at, owner: Option<Owner> });

/// A row of `run_events`: events that follow each other, of one message at most.
struct EventColumns<'r> {
    log_id: i64,
    /// The number of the first event.
    seq_from: u64,
    /// The number of the last event.
    seq: u64,
    message_id: Option<&'r str>,
    /// A line for each event.
    events: &'r str,
}

columns!(for<'r> EventColumns<'r> { log_id, seq_from, seq, message_id, events });

static OPEN: LazyLock<String> = LazyLock::new(|| {
    let add = insert_all::<LogColumns<'_>>("event_logs");
    let change = set(&[
        ("ended_at", "NULL"),
        ("owner", "excluded.owner"),
        ("pid", "excluded.pid"),
        ("pid_started", "excluded.pid_started"),
        ("pid_space", "excluded.pid_space"),
        ("boot_id", "excluded.boot_id"),
    ]);
    format!("{add} ON CONFLICT (turn_id) DO UPDATE SET {change} RETURNING id")
});
static EXTEND: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("seq", "?3"), ("message_id", "?4"), ("events", "events || ?5")]);
    format!("UPDATE run_events SET {change} WHERE log_id = ?1 AND seq_from = ?2")
});
static ADD: LazyLock<String> = LazyLock::new(|| insert_all::<EventColumns<'_>>("run_events"));
static END: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE event_logs SET {} WHERE id = ?1", set(&[("ended_at", "?2")])));

/// The log of a turn.
pub(crate) fn log_of(connection: &Connection, turn_id: &str) -> Stored<Option<i64>> {
    let select = "SELECT id FROM event_logs WHERE turn_id = ?1";
    sql::optional(connection, select, (turn_id,), "read the log of a run's events")
}

/// The log of a run that begins, or goes on.
pub(crate) fn open(
    connection: &Connection,
    names: &RunNames,
    owner: &Owner,
    now: i64,
) -> Stored<i64> {
    let row = LogColumns {
        turn_id: &names.turn_id,
        run_id: &names.run_id,
        session_label: &names.session_label,
        created_at: now,
        owner: Some(owner.clone()),
    };
    sql::one(connection, &OPEN, params_from_iter(values(&row)), "open the log of a run's events")
}

/// The last row of a log.
pub(crate) struct Tail {
    seq_from: u64,
    pub(crate) seq: u64,
    message_id: Option<String>,
    bytes: usize,
}

pub(crate) fn tail(connection: &Connection, log: i64) -> Stored<Option<Tail>> {
    let select =
        "SELECT seq_from, seq, message_id, octet_length(events) FROM run_events WHERE log_id = ?1
         ORDER BY seq_from DESC LIMIT 1";
    let last: Option<(u64, u64, Option<String>, u64)> =
        sql::optional(connection, select, (log,), "read a run's events")?;
    Ok(last.map(|(seq_from, seq, message_id, bytes)| Tail {
        seq_from,
        seq,
        message_id,
        bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
    }))
}

/// Adds events, which follow the tail.
pub(crate) fn append(
    connection: &Connection,
    log: i64,
    tail: Option<Tail>,
    events: &[RunEvent],
) -> Stored<()> {
    let mut last = tail.as_ref().map_or(0, |tail| tail.seq);
    let mut open = tail;
    let mut at = 0;
    while let Some(first) = events.get(at) {
        // What fits the open row, or a new one.
        let room = open.as_ref().map_or(ROW, |row| ROW.saturating_sub(row.bytes));
        let mut message = open.as_ref().and_then(|row| row.message_id.clone());
        let mut lines = String::new();
        let from = at;
        while let Some(event) = events.get(at) {
            let fits = lines.len() < room && (message.is_none() || !is_of_another(event, &message));
            let begins = open.is_none() && at == from;
            if !(fits || begins) {
                break;
            }
            if last.checked_add(1) != Some(event.seq) {
                return Err(damaged(&format!(
                    "event `{}` of a run does not follow event `{last}`",
                    event.seq
                )));
            }
            last = event.seq;
            message = message.or_else(|| event.message_id.as_deref().map(ToOwned::to_owned));
            line(&mut lines, event);
            at += 1;
        }
        let seq_from = match &open {
            Some(_) if at == from => {
                open = None;
                continue;
            }
            Some(row) => row.seq_from,
            None => first.seq,
        };
        let statement = if open.take().is_some() { &EXTEND } else { &ADD };
        let row = EventColumns {
            log_id: log,
            seq_from,
            seq: last,
            message_id: message.as_deref(),
            events: &lines,
        };
        sql::insert(connection, statement, &row, "store a run's events")?;
    }
    Ok(())
}

/// Whether an event is of a message other than `message`.
fn is_of_another(event: &RunEvent, message: &Option<String>) -> bool {
    event.message_id.is_some() && event.message_id.as_deref() != message.as_deref()
}

/// The run has ended.
pub(crate) fn end(connection: &Connection, log: i64, now: i64) -> Stored<()> {
    sql::exec(connection, &END, (log, now), "end the log of a run's events").map(drop)
}

/// Ends the log of a turn that nobody runs any more, with `event`.
pub(crate) fn end_interrupted(
    connection: &Connection,
    turn_id: &str,
    event: &StreamEvent,
    now: i64,
) -> Stored<()> {
    let Some(log) = log_of(connection, turn_id)? else { return Ok(()) };
    let mut event = event.clone();
    if let StreamEvent::StreamError { partial, .. } = &mut event {
        let select =
            "SELECT 1 FROM run_events WHERE log_id = ?1 AND message_id IS NOT NULL LIMIT 1";
        *partial = sql::exists(connection, select, (log,), "read a run's events")?;
    }
    let tail = tail(connection, log)?;
    let last = terminal(&event, tail.as_ref().map_or(0, |tail| tail.seq));
    append(connection, log, tail, &[last])?;
    end(connection, log, now)
}

/// At most `rows` rows of a log from the one that holds event `after + 1`; false when there are more.
pub(crate) fn read(
    connection: &Connection,
    log: i64,
    after: u64,
    rows: i64,
) -> Stored<(Vec<RunEvent>, bool)> {
    let (mut events, mut count) = (Vec::new(), 0);
    let values = (log, i64::try_from(after).unwrap_or(i64::MAX), rows);
    sql::each(connection, &READ, values, "read a run's events", |fields| {
        let Checked { row, is_whole } = fields.next::<Checked<EventColumns<'_>>>()?;
        let from = row.seq_from;
        if !is_whole {
            let events =
                format!("the events of a run from `{from}` on are not as they were written");
            return Err(damaged(&events));
        }
        let message = row.message_id.map(Arc::from);
        for (seq, line) in (from..).zip(row.events.lines()).filter(|(seq, _)| *seq > after) {
            events.push(read_line(seq, line, message.as_ref())?);
        }
        count += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((events, count < rows))
}

pub(crate) static READ: LazyLock<String> = LazyLock::new(|| {
    let columns = checked::<EventColumns<'_>>("run_events", "r");
    format!(
        "SELECT {columns} FROM run_events r
         WHERE log_id = ?1 AND seq_from >= coalesce(
           (SELECT max(seq_from) FROM run_events WHERE log_id = ?1 AND seq_from <= ?2 + 1), 0)
         ORDER BY seq_from LIMIT ?3"
    )
});

/// The log of a run that has ended, if its retention is over.
pub(crate) fn expired(
    connection: &Connection,
    retention: &Retention,
    now: i64,
) -> Stored<Option<i64>> {
    let oldest = now.saturating_sub(i64::try_from(retention.age.as_millis()).unwrap_or(i64::MAX));
    let expired = sql::optional(connection, EXPIRED, (oldest,), TRIMMING)?;
    match (expired, retention.turns) {
        (Some(_), _) | (None, None) => Ok(expired),
        (None, Some(turns)) => sql::optional(connection, SURPLUS, (turns,), TRIMMING),
    }
}

pub(crate) const EXPIRED: &str =
    "SELECT id FROM event_logs WHERE ended_at IS NOT NULL AND ended_at <= ?1
     ORDER BY ended_at, id LIMIT 1";
const SURPLUS: &str = "SELECT id FROM event_logs WHERE ended_at IS NOT NULL
     ORDER BY ended_at DESC, id DESC LIMIT 1 OFFSET ?1";
const TRIMMING: &str = "delete old events";

/// Deletes a few rows of an expired log. True when there may be more.
pub(crate) fn trim(connection: &Connection, retention: &Retention, now: i64) -> Stored<bool> {
    let Some(log) = expired(connection, retention, now)? else { return Ok(false) };
    let events = "DELETE FROM run_events WHERE log_id = ?1 AND seq_from IN
        (SELECT seq_from FROM run_events WHERE log_id = ?1 ORDER BY seq_from LIMIT ?2)";
    let deleted = sql::exec(connection, events, (log, TRIMMED), TRIMMING)?;
    if i64::try_from(deleted).unwrap_or(i64::MAX) < TRIMMED {
        sql::exec(connection, "DELETE FROM event_logs WHERE id = ?1", (log,), TRIMMING)?;
    }
    Ok(true)
}
