//! The journal, the runs and the archived events of a ledger, checked: every entry is unaltered, every open turn can be
//! read, every archived event follows the previous one.
//!
//! It must never stop at the first damage.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::journal::open_turn_reads;
use crate::journal_codec::{Entry, EntryKind, EventBatch, open, unpack};
use crate::journal_rows::entry_rows::CommitPoints;
use crate::journal_rows::run_rows;
use crate::rows::blobs;
use crate::sqlite::error::{Stored, in_check};
use model::LedgerCheck;

/// A reported problem: the check, the turn if it is known, and the damage.
type Report<'a> = &'a mut dyn FnMut(LedgerCheck, Option<String>, String);

/// Checks every entry of the journal.
pub(super) fn entries(connection: &Connection, report: Report<'_>) -> Stored<()> {
    let failed = |error| in_check("read the ledger's journal", &error);
    let mut statement = connection
        .prepare(
            "SELECT j.id, j.run, j.kind, j.entry, (SELECT r.turn_id FROM runs r WHERE r.n = j.run) FROM journal j
             ORDER BY j.id",
        )
        .map_err(failed)?;
    let mut rows = statement.query(()).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let id: i64 = row.get(0).map_err(failed)?;
        let (run, kind) = (row.get(1).ok(), row.get(2).ok().and_then(EntryKind::of));
        let entry = row.get_ref(3).ok().and_then(|entry| entry.as_blob().ok());
        let content =
            run.zip(kind).zip(entry).and_then(|((run, kind), entry)| open(run, kind, entry));
        let is_readable = content.is_some_and(|content| match kind {
            Some(EntryKind::Events) => EventBatch::events(&content).is_some(),
            Some(EntryKind::CommitPoint) => Entry::records(&content).is_some(),
            None => false,
        });
        if !is_readable {
            let message = format!("entry `{id}` of the journal is not as it was written");
            report(LedgerCheck::Checksum, row.get(4).ok().flatten(), message);
        }
    }
    Ok(())
}

/// Checks every piece of the archive. Wrong checksums are reported with those of all tables.
pub(super) fn archive(connection: &Connection, report: Report<'_>) -> Stored<()> {
    let failed = |error| in_check("read the ledger's archived events", &error);
    let mut statement = connection
        .prepare(
            "SELECT a.key >> 20, a.seq, a.events, (SELECT r.turn_id FROM runs r WHERE r.n = a.key >> 20)
             FROM event_archive a ORDER BY a.key",
        )
        .map_err(failed)?;
    let mut rows = statement.query(()).map_err(failed)?;
    let mut before: Option<(i64, u64)> = None;
    while let Some(row) = rows.next().map_err(failed)? {
        let run: i64 = row.get(0).map_err(failed)?;
        let last = row.get::<_, i64>(1).map_err(failed)?.cast_unsigned();
        let from = before.filter(|(of, _)| *of == run).map_or(1, |(_, last)| last + 1);
        let content = row.get_ref(2).ok().and_then(|piece| unpack(piece.as_blob().ok()?));
        let events = content.as_deref().and_then(EventBatch::events).unwrap_or_default();
        let follows = events.first().is_some_and(|event| event.seq == from)
            && events.last().is_some_and(|event| event.seq == last);
        if !follows {
            let message = "has archived events that are not as they were written".to_owned();
            report(LedgerCheck::Checksum, row.get(3).ok().flatten(), message);
        }
        before = Some((run, last));
    }
    Ok(())
}

/// The open turns of the journal, and the blobs they use.
#[derive(Default)]
pub(super) struct OpenTurns {
    /// The blobs that open turns refer to.
    pub(super) blobs: BTreeSet<String>,
    pub(super) turns: u64,
    pub(super) messages: u64,
    pub(super) tool_calls: u64,
}

/// The blobs that open turns refer to.
pub(crate) fn open_blobs(connection: &Connection) -> Stored<BTreeSet<String>> {
    Ok(open_turns(connection, &mut |_, _, _| {})?.blobs)
}

/// Checks every open turn as a reader would read it.
pub(super) fn open_turns(connection: &Connection, report: Report<'_>) -> Stored<OpenTurns> {
    let mut open = OpenTurns::default();
    for found in run_rows::open(connection)? {
        let points = CommitPoints::of(connection, &found.run)?;
        let state = points.state();
        let turn = Some(found.run.turn_id.clone());
        if state.opening.is_none() {
            report(LedgerCheck::OpenTurns, turn, "runs without a journal".to_owned());
        } else if let Err(error) = open_turn_reads::open_turn(connection, &found) {
            report(LedgerCheck::OpenTurns, turn, error.message);
        }
        let names = state.messages.iter().map(|message| message.blobs_json);
        for names in names.chain(state.calls.iter().map(|call| call.blobs_json)).flatten() {
            open.blobs.extend(blobs::named(names));
        }
        open.turns += 1;
        open.messages += state.messages.len() as u64;
        open.tool_calls += state.calls.len() as u64;
    }
    Ok(open)
}
