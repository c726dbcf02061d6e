//! The events of a run: adding them to the journal, and reading them from the archive and the journal.
//!
//! Events follow each other without a gap. It must never add one whose number does not follow the last one, nor return events
//! behind one that is missing.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension};

use crate::journal_codec::{EntryKind, EventBatch, open, unpack};
use crate::journal_rows::entry_rows::append as append_entry;
use crate::journal_rows::run_rows::RunRow;
use crate::sqlite::checksum::is_whole;
use crate::sqlite::error::{Stored, damaged, sqlite};
use model::{RunEvent, StorageError};

/// Bytes of events in one entry.
const ENTRY: usize = 256 << 10;
/// Bytes of events that one page returns, about.
const PAGE: usize = 192 << 10;
/// Pieces that the events of one run may have in the archive.
pub(crate) const PIECES: i64 = 1 << 20;

fn failed(error: &rusqlite::Error) -> StorageError {
    sqlite("read a run's events", error)
}

/// Adds events behind number `last`; `first` where the run has no entry yet.
pub(crate) fn append(
    connection: &Connection,
    run: i64,
    last: u64,
    events: &[RunEvent],
    mut first: bool,
) -> Stored<()> {
    let mut last = last;
    let mut batch = EventBatch::default();
    for event in events {
        if event.seq != last + 1 || !batch.add(event) {
            return Err(damaged(&format!(
                "event `{}` of a run does not follow event `{last}`",
                event.seq
            )));
        }
        last = event.seq;
        if batch.size() > ENTRY {
            let full = std::mem::take(&mut batch);
            append_entry(connection, run, EntryKind::Events, &full.content(), first)?;
            first = false;
        }
    }
    if batch.is_empty() {
        return Ok(());
    }
    append_entry(connection, run, EntryKind::Events, &batch.content(), first)
}

pub(crate) const LAST: &str = "SELECT entry FROM journal WHERE id BETWEEN ?1 AND ?2 AND run = ?1 AND kind = 0 \
     ORDER BY id DESC";
pub(crate) const LAST_ARCHIVED: &str =
    "SELECT seq FROM event_archive WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1";

/// The number of the last event of a run that can be read; 0 for none. Behind one that cannot, a reader goes no further.
pub(crate) fn last(connection: &Connection, run: &RunRow) -> Stored<u64> {
    if !run.is_archived() {
        let mut statement = connection.prepare_cached(LAST).map_err(|error| failed(&error))?;
        let mut rows =
            statement.query((run.n, run.last_entry())).map_err(|error| failed(&error))?;
        while let Some(row) = rows.next().map_err(|error| failed(&error))? {
            let entry = row
                .get_ref(0)
                .and_then(|entry| Ok(entry.as_blob()?))
                .map_err(|error| failed(&error))?;
            let last = open(run.n, EntryKind::Events, entry).and_then(EventBatch::last_of);
            if let Some(last) = last {
                return Ok(last);
            }
        }
    }
    archived_through(connection, run)
}

/// The number of the last event of a run in the archive; 0 for none.
pub(crate) fn archived_through(connection: &Connection, run: &RunRow) -> Stored<u64> {
    let last: Option<i64> = connection
        .prepare_cached(LAST_ARCHIVED)
        .and_then(|mut statement| statement.query_row(pieces(run.n), |row| row.get(0)).optional())
        .map_err(|error| failed(&error))?;
    Ok(last.map_or(0, i64::cast_unsigned))
}

/// The first and the last key that a piece of a run may have.
pub(crate) fn pieces(run: i64) -> (i64, i64) {
    let first = run.saturating_mul(PIECES);
    (first, first.saturating_add(PIECES - 1))
}

pub(crate) static ARCHIVED: LazyLock<String> = LazyLock::new(|| {
    let whole = is_whole("event_archive", "a");
    format!(
        "SELECT seq, {whole}, events FROM event_archive a WHERE key BETWEEN ?1 AND ?2 AND seq > ?3 ORDER BY key"
    )
});
pub(crate) const IN_JOURNAL: &str =
    "SELECT entry FROM journal WHERE id BETWEEN ?1 AND ?2 AND run = ?1 AND kind = 0 ORDER BY id";

/// The events of a run behind number `after`, about a page of them; false when there are more.
///
/// # Errors
/// `ledger_corrupt` where the next one is not as it was written.
pub(crate) fn read(
    connection: &Connection,
    run: &RunRow,
    after: u64,
) -> Stored<(Vec<RunEvent>, bool)> {
    read_some(connection, run, after, PAGE)
}

/// As [`read`], of about so many bytes.
pub(crate) fn read_some(
    connection: &Connection,
    run: &RunRow,
    after: u64,
    bytes: usize,
) -> Stored<(Vec<RunEvent>, bool)> {
    let mut found = Found { run, events: Vec::new(), last: after, bytes: 0, most: bytes };
    if run.has_ended() {
        let (from, to) = pieces(run.n);
        let mut statement = connection.prepare_cached(&ARCHIVED).map_err(|error| failed(&error))?;
        let mut rows =
            statement.query((from, to, after.cast_signed())).map_err(|error| failed(&error))?;
        while let Some(row) = rows.next().map_err(|error| failed(&error))? {
            if found.is_full() {
                return Ok((found.events, false));
            }
            let piece = row
                .get_ref(2)
                .and_then(|piece| Ok(piece.as_blob()?))
                .map_err(|error| failed(&error))?;
            let content = row
                .get::<_, bool>(1)
                .map_err(|error| failed(&error))?
                .then(|| unpack(piece))
                .flatten();
            found.add(content.as_deref())?;
        }
        if run.is_archived() {
            return Ok((found.events, true));
        }
    }
    let mut statement = connection.prepare_cached(IN_JOURNAL).map_err(|error| failed(&error))?;
    let mut rows = statement.query((run.n, run.last_entry())).map_err(|error| failed(&error))?;
    while let Some(row) = rows.next().map_err(|error| failed(&error))? {
        let entry = row
            .get_ref(0)
            .and_then(|entry| Ok(entry.as_blob()?))
            .map_err(|error| failed(&error))?;
        // What was read before is passed over by what it says, which is only believed of that: see `add`.
        let says = entry.get(2..).and_then(EventBatch::last_of);
        if says.is_some_and(|last| last <= found.last) {
            continue;
        }
        if found.is_full() {
            return Ok((found.events, false));
        }
        found.add(open(run.n, EntryKind::Events, entry))?;
    }
    Ok((found.events, true))
}

struct Found<'a> {
    run: &'a RunRow,
    events: Vec<RunEvent>,
    last: u64,
    bytes: usize,
    most: usize,
}

impl Found<'_> {
    fn is_full(&self) -> bool {
        self.bytes >= self.most
    }

    /// Adds what follows the last event. Where something is missing between them, an entry was damaged.
    fn add(&mut self, content: Option<&[u8]>) -> Stored<()> {
        let unreadable = || not_as_written(self.run, self.last + 1);
        let events = content.and_then(EventBatch::events).ok_or_else(unreadable)?;
        for event in events {
            if event.seq <= self.last {
                continue;
            }
            if event.seq != self.last + 1 {
                return Err(not_as_written(self.run, self.last + 1));
            }
            self.last = event.seq;
            self.bytes += event.text.len() + 16;
            self.events.push(event);
        }
        Ok(())
    }
}

fn not_as_written(run: &RunRow, from: u64) -> StorageError {
    damaged(&format!(
        "the events of run `{}` from `{from}` on are not as they were written",
        run.run_id
    ))
}
