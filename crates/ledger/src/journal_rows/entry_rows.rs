//! The rows of `journal`: adding entries, and those of a turn's commit points.
//!
//! It must never change one.

use std::borrow::Cow;

use rusqlite::{Connection, params};

use crate::journal_codec::{Entry, EntryKind, TurnState, fold, open, seal};
use crate::journal_rows::run_rows::RunRow;
use crate::sqlite::error::{Stored, sqlite};

/// The size after which an entry is not extended, so that rows stay small.
pub(crate) const LONG: usize = 1 << 20;

/// Adds an entry of a run: the first one under the run's number, every other under the next id.
pub(crate) fn append(
    connection: &Connection,
    run: i64,
    kind: EntryKind,
    content: &[u8],
    first: bool,
) -> Stored<()> {
    connection
        .prepare_cached("INSERT INTO journal (id, run, kind, entry) VALUES (?1, ?2, ?3, ?4)")
        .and_then(|mut statement| {
            let id = first.then_some(run);
            statement.execute(params![id, run, kind.number(), seal(run, kind, content)])
        })
        .map(drop)
        .map_err(|error| sqlite("write the journal", &error))
}

/// Adds the entry of a commit point.
pub(crate) fn record(connection: &Connection, run: i64, entry: &Entry) -> Stored<()> {
    append(connection, run, EntryKind::CommitPoint, entry.content(), false)
}

/// The entries of the commit points of a turn.
pub(crate) struct CommitPoints(Vec<Option<Vec<u8>>>);

pub(crate) const COMMIT_POINTS: &str =
    "SELECT entry FROM journal WHERE id BETWEEN ?1 AND ?2 AND run = ?1 AND kind = 1 ORDER BY id";

impl CommitPoints {
    /// Reads the entries of a run.
    pub(crate) fn of(connection: &Connection, run: &RunRow) -> Stored<Self> {
        let failed =
            |error| sqlite(format_args!("read the journal of turn `{}`", run.turn_id), &error);
        let mut statement = connection.prepare_cached(COMMIT_POINTS).map_err(failed)?;
        let mut rows = statement.query((run.n, run.last_entry())).map_err(failed)?;
        let mut contents = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let entry = row.get_ref(0).and_then(|entry| Ok(entry.as_blob()?)).map_err(failed)?;
            contents.push(open(run.n, EntryKind::CommitPoint, entry).map(Cow::into_owned));
        }
        Ok(Self(contents))
    }

    /// The fold of the entries.
    pub(crate) fn state(&self) -> TurnState<'_> {
        fold(self.0.iter().map(Option::as_deref))
    }
}
