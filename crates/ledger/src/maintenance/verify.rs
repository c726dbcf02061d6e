//! The report on a whole ledger, read from the file by a separate connection.
//!
//! It must never stop at the first damage: everything that can be checked is checked. A page in the cache of a connection
//! may differ from the disk, so no pooled connection is used.

use std::path::Path;

use rusqlite::Connection;

use super::check::CHECKS;
use super::each::each;
use super::{index, journal_check, shape};
use crate::rows::blobs::{self, BlobColumns};
use crate::rows::message_rows::{message, messages_of};
use crate::rows::tool_call_rows::{tool_call, tool_calls_of};
use crate::sqlite::checksum::{TABLES, Table, is_whole};
use crate::sqlite::columns::list;
use crate::sqlite::connection::{self, Purpose};
use crate::sqlite::error::Stored;
use crate::sqlite::readers::{self, Readers};
use base::clock::Clock;
use model::{
    LedgerCheck, LedgerChecked, LedgerProblem, LedgerReport, StorageError, StorageErrorKind,
};

/// The most problems of a report.
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

    /// Damage that ended a check becomes a problem; every other error is returned.
    fn damage<T>(&mut self, check: LedgerCheck, done: Stored<T>) -> Stored<Option<T>> {
        match done {
            Ok(value) => Ok(Some(value)),
            Err(StorageError { kind: StorageErrorKind::Corrupt, message, .. }) => {
                self.add(check, None, message);
                Ok(None)
            }
            // An overwritten header makes SQLite take the file for another application's; it was a ledger when it was opened.
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
    let mut report = |check, subject, message| found.add(check, subject, message);
    let entries = journal_check::entries(connection, &mut report);
    let archive = journal_check::archive(connection, &mut report);
    let open = journal_check::open_turns(connection, &mut report);
    found.damage(LedgerCheck::Checksum, entries)?;
    found.damage(LedgerCheck::Checksum, archive)?;
    // Only the journal refers to the blobs of open turns.
    let open = found.damage(LedgerCheck::OpenTurns, open)?.unwrap_or_default();
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
            if check != LedgerCheck::Blobs || !open.blobs.contains(&subject) {
                found.add(check, Some(subject), message);
            }
        });
        found.damage(check, done)?;
    }
    for (table, count) in [
        ("sessions", &mut checked.sessions),
        ("turns", &mut checked.turns),
        ("call_rows", &mut checked.tool_calls),
    ] {
        let counted = count_of(connection, table);
        *count = found.damage(LedgerCheck::Integrity, counted)?.unwrap_or_default();
    }
    checked.turns += open.turns;
    checked.messages += open.messages;
    checked.tool_calls += open.tool_calls;
    Ok(())
}

fn integrity(connection: &Connection, found: &mut Found) -> Stored<()> {
    let check = format!("PRAGMA integrity_check({})", MOST + 1);
    each(connection, &check, (), "check the ledger's integrity", |fields| {
        let message: String = fields.next()?;
        if message != "ok" {
            found.add(LedgerCheck::Integrity, None, message);
        }
        Ok(())
    })
}

fn references(connection: &Connection, found: &mut Found) -> Stored<()> {
    let check = "PRAGMA foreign_key_check";
    each(connection, check, (), "check the ledger's references", |fields| {
        let (table, number, to): (&str, Option<i64>, &str) = fields.next()?;
        let number = number.map_or_else(String::new, |number| format!(" {number}"));
        found.add(
            LedgerCheck::References,
            None,
            format!("row{number} of `{table}` names a row of `{to}` that does not exist"),
        );
        Ok(())
    })
}

/// Checks the checksum of every row.
fn checksums(connection: &Connection, table: &Table, found: &mut Found) -> Stored<()> {
    let Table { name, subject, .. } = table;
    let damaged = format!("SELECT {subject} FROM {name} WHERE NOT ({})", is_whole(name, name));
    each(connection, &damaged, (), format_args!("read the ledger's `{name}`"), |fields| {
        // The damage may be in the row's name.
        let subject = fields.next().ok();
        found.add(LedgerCheck::Checksum, subject, format!("is not as it was written to `{name}`"));
        Ok(())
    })
}

fn messages(connection: &Connection, found: &mut Found, checked: &mut u64) -> Stored<()> {
    let all = messages_of("message_values m");
    each(connection, &all, (), "read the ledger's messages", |fields| {
        *checked += 1;
        let id = fields.again().next().ok();
        if let Err(error) = fields.next().and_then(|row| message(connection, &row)) {
            found.add(LedgerCheck::Checksum, id, error.message);
        }
        Ok(())
    })
}

/// Checks the tool calls whose arguments and results are blobs, which the statements of [`CHECKS`] do not read.
fn large_calls(connection: &Connection, found: &mut Found) -> Stored<()> {
    let large = tool_calls_of("c.blobs_json IS NOT NULL");
    each(connection, &large, (), "read the ledger's tool calls", |fields| {
        let id = fields.again().next().ok();
        if let Err(error) = fields.next().and_then(|row| tool_call(connection, &row)) {
            found.add(LedgerCheck::ToolCalls, id, error.message);
        }
        Ok(())
    })
}

/// Checks that every blob has the hash under which it is stored.
fn blobs(connection: &Connection, found: &mut Found, checked: &mut u64) -> Stored<()> {
    let all = format!("SELECT {} FROM blobs", list::<BlobColumns<'_>>());
    each(connection, &all, (), "read the ledger's blobs", |fields| {
        *checked += 1;
        let hash = fields.again().next().ok();
        if fields.next().ok().and_then(|blob| blobs::text(&blob)).is_none() {
            let message = "is not what was written under this hash".to_owned();
            found.add(LedgerCheck::Blobs, hash, message);
        }
        Ok(())
    })
}

fn rows(connection: &Connection, sql: &str, mut add: impl FnMut(String, String)) -> Stored<()> {
    each(connection, sql, (), "check the ledger", |fields| {
        add(fields.next()?, fields.next()?);
        Ok(())
    })
}

fn count_of(connection: &Connection, table: &str) -> Stored<u64> {
    let mut rows = 0;
    let count = format!("SELECT count(*) FROM {table}");
    each(connection, &count, (), "count the ledger's rows", |fields| {
        rows = fields.next()?;
        Ok(())
    })?;
    Ok(rows)
}
