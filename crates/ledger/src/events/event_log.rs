//! The rows of kept events: adding, ending, reading, and taking old ones away.
//!
//! Rows of a run follow each other without a gap. It must never add an event whose number does not follow the last one.

use std::sync::{Arc, LazyLock};

use rusqlite::{Connection, OptionalExtension, params};

use crate::lease::owner::Owner;
use crate::sqlite::checksum::{insert, is_whole, numbered, set};
use crate::sqlite::error::{Stored, damaged, sqlite};
use model::{Retention, RunEvent, RunEventKind, RunNames, StreamEvent};

/// A row is added to until it has so many bytes: about what a page of the file holds.
const ROW: usize = 3_072;
/// Rows that one job takes away.
const TRIMMED: i64 = 256;

static OPEN: LazyLock<String> = LazyLock::new(|| {
    let row =
        "turn_id, run_id, session_label, created_at, owner, pid, pid_started, pid_space, boot_id";
    let add = insert("event_logs", &numbered(row));
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
static ADD: LazyLock<String> =
    LazyLock::new(|| insert("run_events", &numbered("log_id, seq_from, seq, message_id, events")));
static END: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE event_logs SET {} WHERE id = ?1", set(&[("ended_at", "?2")])));

/// The log of a turn.
pub(crate) fn log_of(connection: &Connection, turn_id: &str) -> Stored<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM event_logs WHERE turn_id = ?1")
        .and_then(|mut statement| statement.query_row((turn_id,), |row| row.get(0)).optional())
        .map_err(|error| sqlite("read the log of a run's events", &error))
}

/// The log of a run that begins, or goes on.
pub(crate) fn open(
    connection: &Connection,
    names: &RunNames,
    owner: &Owner,
    now: i64,
) -> Stored<i64> {
    connection
        .prepare_cached(&OPEN)
        .and_then(|mut statement| {
            statement.query_row(
                params![
                    names.turn_id,
                    names.run_id,
                    names.session_label,
                    now,
                    owner.id,
                    owner.pid,
                    owner.pid_started,
                    owner.pid_space,
                    owner.boot_id
                ],
                |row| row.get(0),
            )
        })
        .map_err(|error| sqlite("open the log of a run's events", &error))
}

/// The last row of a log.
pub(crate) struct Tail {
    seq_from: i64,
    pub(crate) seq: u64,
    message_id: Option<String>,
    bytes: usize,
}

pub(crate) fn tail(connection: &Connection, log: i64) -> Stored<Option<Tail>> {
    connection
        .prepare_cached(
            "SELECT seq_from, seq, message_id, octet_length(events) FROM run_events WHERE log_id = ?1
             ORDER BY seq_from DESC LIMIT 1",
        )
        .and_then(|mut statement| {
            statement
                .query_row((log,), |row| {
                    Ok(Tail {
                        seq_from: row.get(0)?,
                        seq: number(row.get(1)?),
                        message_id: row.get(2)?,
                        bytes: usize::try_from(row.get::<_, i64>(3)?).unwrap_or(usize::MAX),
                    })
                })
                .optional()
        })
        .map_err(|error| sqlite("read a run's events", &error))
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
        while let Some(told) = events.get(at) {
            let fits = lines.len() < room && (message.is_none() || other(&message, told).is_none());
            let begins = open.is_none() && at == from;
            if !(fits || begins) {
                break;
            }
            if told.seq != last + 1 {
                return Err(damaged(&format!(
                    "event `{}` of a run does not follow event `{last}`",
                    told.seq
                )));
            }
            last = told.seq;
            message = message.or_else(|| told.message_id.as_deref().map(ToOwned::to_owned));
            line(&mut lines, told);
            at += 1;
        }
        match open.take() {
            Some(_) if at == from => {}
            Some(row) => extend(connection, (log, row.seq_from), last, message, &lines)?,
            None => add(connection, (log, first.seq), last, message, &lines)?,
        }
    }
    Ok(())
}

/// The message of a delta, where it is not `message`.
fn other<'a>(message: &Option<String>, told: &'a RunEvent) -> Option<&'a str> {
    told.message_id.as_deref().filter(|id| message.as_deref() != Some(*id))
}

fn line(lines: &mut String, told: &RunEvent) {
    match told.kind {
        RunEventKind::Event => {
            lines.push('e');
            // A target that the host gave may have line ends between its values; in strings they are escaped.
            lines.extend(
                told.text.chars().map(|it| if matches!(it, '\n' | '\r') { ' ' } else { it }),
            );
        }
        RunEventKind::Token | RunEventKind::Reasoning => {
            lines.push(if told.kind == RunEventKind::Token { 't' } else { 'r' });
            lines.push_str(&serde_json::Value::from(&*told.text).to_string());
        }
    }
    lines.push('\n');
}

fn extend(
    connection: &Connection,
    (log, from): (i64, i64),
    last: u64,
    message: Option<String>,
    lines: &str,
) -> Stored<()> {
    connection
        .prepare_cached(&EXTEND)
        .and_then(|mut statement| {
            statement.execute(params![log, from, integer(last), message, lines])
        })
        .map(drop)
        .map_err(|error| sqlite("keep a run's events", &error))
}

fn add(
    connection: &Connection,
    (log, from): (i64, u64),
    last: u64,
    message: Option<String>,
    lines: &str,
) -> Stored<()> {
    connection
        .prepare_cached(&ADD)
        .and_then(|mut statement| {
            statement.execute(params![log, integer(from), integer(last), message, lines])
        })
        .map(drop)
        .map_err(|error| sqlite("keep a run's events", &error))
}

/// The terminal event under the number that follows `last`.
pub(crate) fn terminal(event: &StreamEvent, last: u64) -> RunEvent {
    let seq = last + 1;
    // Plain strings and numbers: serde_json has no error for them.
    let text = serde_json::to_string(&event.clone().numbered(seq)).unwrap_or_default();
    RunEvent { seq, kind: RunEventKind::Event, message_id: None, text: Arc::from(text) }
}

/// The run has ended.
pub(crate) fn end(connection: &Connection, log: i64, now: i64) -> Stored<()> {
    connection
        .prepare_cached(&END)
        .and_then(|mut statement| statement.execute((log, now)))
        .map(drop)
        .map_err(|error| sqlite("end the log of a run's events", &error))
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
        *partial = connection
            .prepare_cached(
                "SELECT 1 FROM run_events WHERE log_id = ?1 AND message_id IS NOT NULL LIMIT 1",
            )
            .and_then(|mut statement| statement.exists((log,)))
            .map_err(|error| sqlite("read a run's events", &error))?;
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
    let failed = |error| sqlite("read a run's events", &error);
    let mut statement = connection.prepare_cached(&READ).map_err(failed)?;
    let mut found = statement.query((log, integer(after), rows)).map_err(failed)?;
    let (mut events, mut count) = (Vec::new(), 0);
    while let Some(row) = found.next().map_err(failed)? {
        let from = number(row.get(0).map_err(failed)?);
        if !row.get::<_, bool>(3).map_err(failed)? {
            let events =
                format!("the events of a run from `{from}` on are not as they were written");
            return Err(damaged(&events));
        }
        let message: Option<Arc<str>> =
            row.get::<_, Option<String>>(1).map_err(failed)?.map(Arc::from);
        let lines: String = row.get(2).map_err(failed)?;
        for (seq, line) in (from..).zip(lines.lines()).filter(|(seq, _)| *seq > after) {
            events.push(told(seq, line, message.as_ref())?);
        }
        count += 1;
    }
    Ok((events, count < rows))
}

pub(crate) static READ: LazyLock<String> = LazyLock::new(|| {
    let whole = is_whole("run_events", "r");
    format!(
        "SELECT seq_from, message_id, events, {whole} FROM run_events r
         WHERE log_id = ?1 AND seq_from >= coalesce(
           (SELECT max(seq_from) FROM run_events WHERE log_id = ?1 AND seq_from <= ?2 + 1), 0)
         ORDER BY seq_from LIMIT ?3"
    )
});

fn told(seq: u64, line: &str, message: Option<&Arc<str>>) -> Stored<RunEvent> {
    let unreadable = || damaged(&format!("event `{seq}` of a run cannot be read"));
    let (kind, rest) = line.split_at_checked(1).ok_or_else(unreadable)?;
    let kind = match kind {
        "t" => RunEventKind::Token,
        "r" => RunEventKind::Reasoning,
        "e" => RunEventKind::Event,
        _ => return Err(unreadable()),
    };
    let (message_id, text) = match kind {
        RunEventKind::Event => (None, Arc::from(rest)),
        RunEventKind::Token | RunEventKind::Reasoning => {
            let text: String = serde_json::from_str(rest).map_err(|_| unreadable())?;
            (message.cloned(), Arc::from(text))
        }
    };
    Ok(RunEvent { seq, kind, message_id, text })
}

/// The event as JavaScript gets it.
pub(crate) fn json(told: &RunEvent) -> String {
    let RunEvent { seq, kind, message_id, text } = told;
    let (text, seq, seq_from) = (text.to_string(), *seq, None);
    let message_id = message_id.as_deref().unwrap_or_default().to_owned();
    let event = match kind {
        RunEventKind::Event => return text,
        RunEventKind::Token => StreamEvent::Token { text, message_id, seq, seq_from },
        RunEventKind::Reasoning => StreamEvent::Reasoning { text, message_id, seq, seq_from },
    };
    serde_json::to_string(&event).unwrap_or_default()
}

/// A log of a run that has ended and is not to be kept any longer.
pub(crate) fn expired(
    connection: &Connection,
    retention: &Retention,
    now: i64,
) -> Stored<Option<i64>> {
    let failed = |error| sqlite("take old events away", &error);
    let oldest = now.saturating_sub(i64::try_from(retention.age.as_millis()).unwrap_or(i64::MAX));
    let expired: Option<i64> = connection
        .prepare_cached(
            "SELECT id FROM event_logs WHERE ended_at IS NOT NULL AND ended_at <= ?1 ORDER BY ended_at, id LIMIT 1",
        )
        .and_then(|mut statement| statement.query_row((oldest,), |row| row.get(0)).optional())
        .map_err(failed)?;
    match (expired, retention.turns) {
        (Some(_), _) | (None, None) => Ok(expired),
        (None, Some(turns)) => connection
            .prepare_cached(
                "SELECT id FROM event_logs WHERE ended_at IS NOT NULL ORDER BY ended_at DESC, id DESC LIMIT 1 OFFSET ?1",
            )
            .and_then(|mut statement| statement.query_row((turns,), |row| row.get(0)).optional())
            .map_err(failed),
    }
}

/// Takes away a few rows of an expired log. True when there may be more.
pub(crate) fn trim(connection: &Connection, retention: &Retention, now: i64) -> Stored<bool> {
    let failed = |error| sqlite("take old events away", &error);
    let Some(log) = expired(connection, retention, now)? else { return Ok(false) };
    let gone = connection
        .prepare_cached(
            "DELETE FROM run_events WHERE log_id = ?1 AND seq_from IN
               (SELECT seq_from FROM run_events WHERE log_id = ?1 ORDER BY seq_from LIMIT ?2)",
        )
        .and_then(|mut statement| statement.execute((log, TRIMMED)))
        .map_err(failed)?;
    if i64::try_from(gone).unwrap_or(i64::MAX) < TRIMMED {
        connection
            .prepare_cached("DELETE FROM event_logs WHERE id = ?1")
            .and_then(|mut statement| statement.execute((log,)))
            .map_err(failed)?;
    }
    Ok(true)
}

fn integer(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

fn number(seq: i64) -> u64 {
    u64::try_from(seq).unwrap_or_default()
}
