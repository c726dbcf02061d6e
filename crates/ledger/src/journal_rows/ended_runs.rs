//! The table `ended_runs`: the ids of runs without a row in `runs`, because that was removed or their turn was written at once.
//! So they are still found, and not used again.
//!
//! Salvage and import do not know it: the ids in it are those of `turns`, and only a run of this ledger refuses its id. It must
//! never have a run that has not ended.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::sqlite::checksum::{Checked, checked, insert_all};
use crate::sqlite::columns::columns;
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::{StorageError, StorageErrorKind};

struct EndedRunRow {
    run_id: String,
    turn_id: String,
}

columns!(EndedRunRow { run_id, turn_id });

pub(crate) static TURN_OF: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM ended_runs e WHERE run_id = ?1",
        checked::<EndedRunRow>("ended_runs", "e")
    )
});
static ADD: LazyLock<String> = LazyLock::new(|| {
    insert_all::<EndedRunRow>("ended_runs")
        + " ON CONFLICT (run_id) DO UPDATE SET turn_id = excluded.turn_id, row_checksum = excluded.row_checksum
            WHERE excluded.turn_id > turn_id"
});

/// The turn of the newest run with the host's id.
pub(crate) fn turn_of(connection: &Connection, run_id: &str) -> Stored<Option<String>> {
    let doing = format_args!("find run `{run_id}`");
    match sql::optional::<Checked<EndedRunRow>>(connection, &TURN_OF, (run_id,), doing)? {
        None => Ok(None),
        Some(found) if found.is_whole => Ok(Some(found.row.turn_id)),
        Some(_) => Err(damaged(&format!("the row of run `{run_id}` is not as it was written"))),
    }
}

/// Adds a run that has ended.
pub(crate) fn add(connection: &Connection, run_id: &str, turn_id: &str) -> Stored<()> {
    let row = EndedRunRow { run_id: run_id.to_owned(), turn_id: turn_id.to_owned() };
    sql::insert(connection, &ADD, &row, format_args!("remember run `{run_id}`"))
}

/// The error for an id that no run has.
pub(crate) fn unknown_run(run_id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownRun,
        format!("the ledger has no run `{run_id}`; pass the id of a run that has begun"),
    )
}
