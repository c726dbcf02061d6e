//! A fresh ledger from the readable rows of a damaged one.
//!
//! SQLite refuses such a file, or stops at its first bad page; here every page is read separately, also if no other page
//! refers to it. The damaged file is copied and must never be written to, not even by a lock file.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::cells::Found;
use super::pages::Pages;
use super::remembered::{Remembered, SavedMemory};
use super::tables::Tables;
use crate::open::{draft, registry};
use crate::sqlite::error::{self, Stored, sqlite};
use crate::sqlite::{connection, file};
use crate::transfer::SqliteRows;
use base::clock::Clock;
use model::{StorageError, StorageErrorKind, TransferProblem};
use portable::{Problems, Record, Restore, at_once};

/// The result of `salvageLedger(damaged, fresh)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LedgerSalvage {
    /// The path of the fresh ledger, with links and folders resolved.
    pub path: String,
    /// Pages that were read.
    pub pages: u64,
    /// Rows that the header of a page counts and that cannot be read.
    pub lost_rows: u64,
    /// Sessions that were saved.
    pub sessions: u64,
    /// Turns that were saved.
    pub turns: u64,
    /// Messages that were saved, each unaltered.
    pub messages: u64,
    /// Tool calls that were saved.
    pub tool_calls: u64,
    /// Facts of the memory that were saved, superseded ones included.
    pub facts: u64,
    /// Turns that the next engine with a memory indexes anew; 0 for a ledger without a memory.
    pub indexed_turns: u64,
    /// What was lost or reconstructed; at most 1,000 entries. `line` is null.
    pub problems: Vec<TransferProblem>,
    /// True when there are more problems than `problems` contains.
    pub truncated: bool,
}

/// Writes the readable rows of `damaged` to a fresh ledger at `fresh`. It blocks on the disk.
///
/// # Errors
/// See [`Ledger::salvage`](crate::Ledger::salvage).
pub(crate) fn salvage(damaged: &Path, fresh: &Path, clock: &Clock) -> Stored<LedgerSalvage> {
    if !fs::metadata(damaged).is_ok_and(|metadata| metadata.is_file()) {
        return Err(none(damaged, "is no file; pass the path of a damaged ledger"));
    }
    let (path, mut saved) = draft::write(fresh, clock, |draft| {
        let copy = file::companion(draft, "-damaged");
        let done = registry::copy_closed(damaged, &copy).and_then(|()| {
            let (mut tables, pages, lost_rows) = scan(&copy)?;
            if tables.is_empty() {
                return Err(none(damaged, "has nothing of a ledger in it"));
            }
            let mut problems = Problems::default();
            let remembered = std::mem::take(&mut tables.remembered);
            let records = super::mend::records(tables, &mut problems);
            let (done, memory) = write(draft, (records, remembered), problems, clock)?;
            Ok((done, memory, pages, lost_rows))
        });
        draft::remove(&copy);
        done
    })
    .map(|(path, (done, memory, pages, lost_rows))| {
        let Problems { list, truncated } = done.problems.clone();
        let saved = LedgerSalvage {
            path: String::new(),
            pages,
            lost_rows,
            sessions: done.labels().len() as u64,
            turns: done.turns,
            messages: done.messages,
            tool_calls: done.tool_calls,
            facts: memory.facts,
            indexed_turns: memory.turns,
            problems: list,
            truncated,
        };
        (path, saved)
    })?;
    saved.path = path.to_string_lossy().into_owned();
    Ok(saved)
}

/// Reads every row of every page.
fn scan(path: &Path) -> Stored<(Tables, u64, u64)> {
    let reading = |error| error::file("read the damaged ledger", &error);
    let mut pages = Pages::open(path).map_err(reading)?;
    let (mut tables, mut lost) = (Tables::new()?, 0);
    for number in 1..=pages.count {
        if let Found::Rows(rows, missing) =
            super::cells::rows(&mut pages, number).map_err(reading)?
        {
            lost += missing as u64;
            rows.into_iter().for_each(|row| tables.take(row));
        }
    }
    tables.settle();
    Ok((tables, u64::from(pages.count), lost))
}

/// Writes the records to a ledger, in one transaction.
fn write(
    draft: &Path,
    (records, remembered): (Vec<Record>, Remembered),
    problems: Problems,
    clock: &Clock,
) -> Stored<(Restore, SavedMemory)> {
    let failed = |error| sqlite("write the salvaged ledger", &error);
    let connection = connection::fill_draft(draft, clock)?;
    let mut restore = Restore::default();
    restore.problems = problems;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
    let rows = SqliteRows { connection: &connection, clock, remembers: false };
    at_once(async {
        for record in &records {
            restore.take(&rows, None, record).await?;
        }
        restore.finish(&rows).await
    })?;
    let memory = remembered.write(&connection, &mut restore.problems)?;
    connection.execute_batch("COMMIT").map_err(failed)?;
    connection.close().map_err(|(_, error)| failed(error))?;
    Ok((restore, memory))
}

fn none(path: &Path, why: &str) -> StorageError {
    StorageError::new(StorageErrorKind::InvalidImport, format!("`{}` {why}", path.display()))
}

#[cfg(test)]
mod tests;
