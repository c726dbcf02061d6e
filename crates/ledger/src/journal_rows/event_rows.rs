//! The events of a run: adding them to the journal, and reading them from the archive and the journal.
//!
//! Events follow each other without a gap. It must never add one whose number does not follow the last one, nor return
//! events after a missing one.

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
/// Approximate bytes of events in one page.
const PAGE: usize = 192 << 10;
/// Pieces that the events of one run may have in the archive.
pub(crate) const PIECES: i64 = 1 << 20;

fn failed(error: &rusqlite::Error) -> StorageError {
    sqlite("read a run's events", error)
}

/// Adds events after number `last`; `first` if the run has no entry yet. Returns the id of the newest entry, for [`last`].
pub(crate) fn append(
    connection: &Connection,
    run: i64,
    last: u64,
    events: &[RunEvent],
    mut first: bool,
) -> Stored<i64> {
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
    if !batch.is_empty() {
        append_entry(connection, run, EntryKind::Events, &batch.content(), first)?;
    }
    Ok(connection.last_insert_rowid())
}

pub(crate) const NEWEST: &str = "SELECT entry FROM journal WHERE id = ?1 AND run = ?2 AND kind = 0";
pub(crate) const LAST: &str = "SELECT entry FROM journal WHERE id BETWEEN ?1 AND ?2 AND run = ?1 AND kind = 0 \
     ORDER BY id DESC";
pub(crate) const LAST_ARCHIVED: &str =
    "SELECT seq FROM event_archive WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1";

/// The number of the last readable event of a run; 0 for none. Readers stop at the first unreadable one.
///
/// `newest` is the id of the run's newest entry of events if it is known, or 0. After a transaction that was rolled back,
/// the id may be that of another entry, or of none.
pub(crate) fn last(connection: &Connection, run: &RunRow, newest: i64) -> Stored<u64> {
    if newest != 0 {
        let found = connection
            .prepare_cached(NEWEST)
            .and_then(|mut statement| {
                let read = |row: &rusqlite::Row<'_>| {
                    let entry = row.get_ref(0)?.as_blob()?;
                    Ok(open(run.n, EntryKind::Events, entry)
                        .and_then(|it| EventBatch::last_of(&it)))
                };
                statement.query_row((newest, run.n), read).optional()
            })
            .map_err(|error| failed(&error))?;
        if let Some(last) = found.flatten() {
            return Ok(last);
        }
    }
    if !run.is_archived() {
        let mut statement = connection.prepare_cached(LAST).map_err(|error| failed(&error))?;
        let mut rows =
            statement.query((run.n, run.last_entry())).map_err(|error| failed(&error))?;
        while let Some(row) = rows.next().map_err(|error| failed(&error))? {
            let entry = row
                .get_ref(0)
                .and_then(|entry| Ok(entry.as_blob()?))
                .map_err(|error| failed(&error))?;
            let last =
                open(run.n, EntryKind::Events, entry).and_then(|it| EventBatch::last_of(&it));
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

/// The first and the last possible key of a run's pieces.
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

/// The events of a run after number `after`, about a page; false when there are more.
///
/// # Errors
/// `ledger_corrupt` if the next one was altered.
pub(crate) fn read(
    connection: &Connection,
    run: &RunRow,
    after: u64,
) -> Stored<(Vec<RunEvent>, bool)> {
    read_some(connection, run, after, PAGE)
}

/// Like [`read`], with about `most` bytes.
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
        // The number is read before the checksum is checked, and serves only to skip entries that were already read; `add`
        // checks the rest.
        let claimed_last = entry.get(2..).and_then(EventBatch::last_of);
        if claimed_last.is_some_and(|last| last <= found.last) {
            continue;
        }
        if found.is_full() {
            return Ok((found.events, false));
        }
        found.add(open(run.n, EntryKind::Events, entry).as_deref())?;
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

    /// Adds the content that follows the last event. A gap before it means that an entry was damaged.
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
