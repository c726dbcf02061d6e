//! The report on a whole ledger, read from the file by a connection of its own.
//!
//! It must never stop at the first damage: what can be checked is checked. A page that a connection has cached says
//! nothing about the disk, so no pooled connection is used.

use crate::rows::message_rows;
use std::path::Path;

use rusqlite::Connection;

use super::check::CHECKS;
use super::{index, shape};
use crate::rows::{blobs, row_types as told};
use crate::sqlite::checksum::{TABLES, Table, is_whole};
use crate::sqlite::connection::{self, Purpose};
use crate::sqlite::error::{Stored, in_check};
use crate::sqlite::readers::{self, Readers};
use base::clock::Clock;
use model::{
    LedgerCheck, LedgerChecked, LedgerProblem, LedgerReport, StorageError, StorageErrorKind,
};

/// Problems that a report names; more say nothing that these do not.
const MOST: usize = 1_000;

pub(crate) fn verify(path: &Path, clock: &Clock, pool: &Readers) -> Stored<LedgerReport> {
    let begun = clock.instant();
    let mut found = Found { problems: Vec::new(), truncated: false };
    let mut checked = LedgerChecked::default();
    let opened = connection::open(path, Purpose::Read);
    if let Some(mut connection) = found.damage(LedgerCheck::Integrity, opened)? {
        let under_way = pool.begin(&mut connection);
        let read = under_way.outcome(readers::snapshot(&mut connection, |connection| {
            checks(connection, &mut found, &mut checked)
        }));
        found.damage(LedgerCheck::Integrity, read)?;
    }
    let Found { problems, truncated } = found;
    Ok(LedgerReport {
        ok: problems.is_empty(),
        problems,
        truncated,
        checked,
        duration_ms: u64::try_from(clock.instant().duration_since(begun).as_millis())
            .unwrap_or(u64::MAX),
    })
}

/// The problems so far.
struct Found {
    problems: Vec<LedgerProblem>,
    truncated: bool,
}

impl Found {
    fn add(&mut self, check: LedgerCheck, subject: Option<String>, message: String) {
        if self.problems.len() < MOST {
            self.problems.push(LedgerProblem { check, subject, message });
        } else {
            self.truncated = true;
        }
    }

    /// Damage that ended a check is a problem; everything else is the caller's error.
    fn damage<T>(&mut self, check: LedgerCheck, done: Stored<T>) -> Stored<Option<T>> {
        match done {
            Ok(value) => Ok(Some(value)),
            Err(StorageError { kind: StorageErrorKind::Corrupt, message, .. }) => {
                self.add(check, None, message);
                Ok(None)
            }
            // A header that was overwritten makes the file look like somebody else's; it was ours when it was opened.
            Err(StorageError { kind: StorageErrorKind::Foreign, message, .. }) => {
                self.add(check, None, message);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn checks(connection: &Connection, found: &mut Found, checked: &mut LedgerChecked) -> Stored<()> {
    let integrity = integrity(connection, found);
    found.damage(LedgerCheck::Integrity, integrity)?;
    let shape = shape::altered(connection).map(|names| {
        for name in names {
            let message = "is not as the schema's version makes it".to_owned();
            found.add(LedgerCheck::Integrity, Some(name), message);
        }
    });
    found.damage(LedgerCheck::Integrity, shape)?;
    let references = references(connection, found);
    found.damage(LedgerCheck::References, references)?;
    for table in &TABLES {
        let rows = checksums(connection, table, found);
        found.damage(LedgerCheck::Checksum, rows)?;
    }
    let messages = messages(connection, found, &mut checked.messages);
    found.damage(LedgerCheck::Checksum, messages)?;
    let large = large_calls(connection, found);
    found.damage(LedgerCheck::ToolCalls, large)?;
    let blobs = blobs(connection, found, &mut checked.blobs);
    found.damage(LedgerCheck::Blobs, blobs)?;
    let indexed = index::is_complete(connection).map(|complete| {
        if !complete {
            let message = "the index of words does not have the words of the messages, and a search may miss some; \
                           export the ledger into a fresh one";
            found.add(LedgerCheck::Search, None, message.to_owned());
        }
    });
    found.damage(LedgerCheck::Search, indexed)?;
    for (check, sql) in CHECKS {
        let done = rows(connection, sql, |subject, message| {
            found.add(check, Some(subject), message);
        });
        found.damage(check, done)?;
    }
    for (table, count) in [
        ("sessions", &mut checked.sessions),
        ("turns", &mut checked.turns),
        ("tool_calls", &mut checked.tool_calls),
    ] {
        let counted = count_of(connection, table);
        *count = found.damage(LedgerCheck::Integrity, counted)?.unwrap_or_default();
    }
    Ok(())
}

fn integrity(connection: &Connection, found: &mut Found) -> Stored<()> {
    let failed = |error| in_check("check the ledger's integrity", &error);
    let mut statement =
        connection.prepare(&format!("PRAGMA integrity_check({})", MOST + 1)).map_err(failed)?;
    let mut rows = statement.query(()).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let message: String = row.get(0).map_err(failed)?;
        if message != "ok" {
            found.add(LedgerCheck::Integrity, None, message);
        }
    }
    Ok(())
}

fn references(connection: &Connection, found: &mut Found) -> Stored<()> {
    let failed = |error| in_check("check the ledger's references", &error);
    let mut statement = connection.prepare("PRAGMA foreign_key_check").map_err(failed)?;
    let mut rows = statement.query(()).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let table: String = row.get(0).map_err(failed)?;
        let number: Option<i64> = row.get(1).map_err(failed)?;
        let to: String = row.get(2).map_err(failed)?;
        let number = number.map_or_else(String::new, |number| format!(" {number}"));
        found.add(
            LedgerCheck::References,
            None,
            format!("row{number} of `{table}` names a row of `{to}` that is not there"),
        );
    }
    Ok(())
}

/// Every row is as it was written, or as it was last changed.
fn checksums(connection: &Connection, table: &Table, found: &mut Found) -> Stored<()> {
    let Table { name, subject, .. } = table;
    let failed = |error| in_check(&format!("read the ledger's `{name}`"), &error);
    let whole = is_whole(name, name);
    let mut statement = connection
        .prepare(&format!("SELECT {subject} FROM {name} WHERE NOT ({whole})"))
        .map_err(failed)?;
    let mut rows = statement.query(()).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let message = format!("is not as it was written to `{name}`");
        // What names the row may be what is damaged.
        found.add(LedgerCheck::Checksum, row.get(0).ok(), message);
    }
    Ok(())
}

fn messages(connection: &Connection, found: &mut Found, checked: &mut u64) -> Stored<()> {
    let failed = |error| in_check("read the ledger's messages", &error);
    let sql =
        message_rows::MESSAGES.replace("WHERE turn_id = ?1 ORDER BY sequence", "ORDER BY rowid");
    let mut statement = connection.prepare(&sql).map_err(failed)?;
    let mut rows = statement.query(()).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        *checked += 1;
        let id = row.get::<_, String>(0).ok();
        let read =
            message_rows::message(connection, row).unwrap_or_else(|error| Err(failed(error)));
        if let Err(error) = read {
            found.add(LedgerCheck::Checksum, id, error.message);
        }
    }
    Ok(())
}

/// The tool calls whose arguments and results the statements of [`CHECKS`] do not see.
fn large_calls(connection: &Connection, found: &mut Found) -> Stored<()> {
    let failed = |error| in_check("read the ledger's tool calls", &error);
    let sql = told::tool_calls_of("blobs_json IS NOT NULL");
    let mut statement = connection.prepare(&sql).map_err(failed)?;
    let mut rows = statement.query(()).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let id = row.get::<_, String>(0).ok();
        let read = told::tool_call(connection, row).unwrap_or_else(|error| Err(failed(error)));
        if let Err(error) = read {
            found.add(LedgerCheck::ToolCalls, id, error.message);
        }
    }
    Ok(())
}

/// Every blob is what its hash says.
fn blobs(connection: &Connection, found: &mut Found, checked: &mut u64) -> Stored<()> {
    let failed = |error| in_check("read the ledger's blobs", &error);
    let mut statement =
        connection.prepare("SELECT hash, size, codec, data FROM blobs").map_err(failed)?;
    let mut rows = statement.query(()).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        *checked += 1;
        let hash: Option<String> = row.get(0).ok();
        let text = hash.as_deref().and_then(|hash| blobs::of_row(hash, row));
        if text.is_none() {
            let message = "is not what was written under this hash".to_owned();
            found.add(LedgerCheck::Blobs, hash, message);
        }
    }
    Ok(())
}

fn rows(connection: &Connection, sql: &str, mut each: impl FnMut(String, String)) -> Stored<()> {
    let failed = |error| in_check("check the ledger", &error);
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let mut rows = statement.query(()).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        each(row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
    }
    Ok(())
}

fn count_of(connection: &Connection, table: &str) -> Stored<u64> {
    connection
        .query_row(&format!("SELECT count(*) FROM {table}"), (), |row| row.get::<_, i64>(0))
        .map(i64::cast_unsigned)
        .map_err(|error| in_check("count the ledger's rows", &error))
}
