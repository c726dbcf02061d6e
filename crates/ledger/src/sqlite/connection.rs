//! The one opener of SQLite, with the guards of docs/rules/faults.md#connection-settings. Nothing else may call `rusqlite::Connection::open*`.
//!
//! It must never write to a file before it has checked that the file is a ledger of a known version.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::sqlite::error::{Stored, damaged, sqlite};
use crate::sqlite::synchronous::Synchronous;
use crate::sqlite::{checksum, file, guard, schema};
use base::clock::Clock;
use model::{StorageError, StorageErrorKind};

/// How long a connection waits for another process's lock.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest string or row.
const MAX_LENGTH: i32 = 64 << 20;
/// Prepared statements that a connection caches: more than the ledger has.
const STATEMENTS: usize = 128;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Commits, on the writer's thread.
    Write(Synchronous),
    /// Reads of the engine.
    Read,
}

/// Opens the ledger at `path`, which `ledger::file` has checked. Migrates it when `purpose` is writing.
///
/// # Errors
/// A file that is foreign, newer, damaged or read-only; it is left unchanged.
pub(crate) fn open(path: &Path, purpose: Purpose) -> Stored<Connection> {
    let only_read = (purpose == Purpose::Read).then_some(path);
    guard::opening(only_read, || open_checked(path, purpose))
}

fn open_checked(path: &Path, purpose: Purpose) -> Stored<Connection> {
    let connection = open_raw(path, purpose)?;
    let opened = identify(&connection, path).and_then(|()| match purpose {
        Purpose::Read => configure(&connection, purpose),
        Purpose::Write(_) => {
            configure(&connection, purpose)?;
            schema::migrate(&connection, schema::MIGRATIONS)?;
            // A log left by a crash is copied into the file at the next checkpoint; the log of a refused file stays
            // unchanged.
            set(&connection, DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
        }
    });
    if opened.is_err() && !file::has_log(path) {
        // Without a log, closing may remove the empty companions that opening created.
        set(&connection, DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    }
    opened.map(|()| connection)
}

#[expect(clippy::disallowed_methods, reason = "this is the owner")]
fn open_raw(path: &Path, purpose: Purpose) -> Stored<Connection> {
    let mode = match purpose {
        Purpose::Write(_) => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Purpose::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    // URIs are disabled, so that every path is taken literally.
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| sqlite(format!("open the ledger `{}`", path.display()), &error))?;
    connection
        .busy_timeout(BUSY_TIMEOUT)
        .map_err(|error| sqlite("set the ledger's busy timeout", &error))?;
    set(&connection, DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    set(&connection, DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    set(&connection, DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    set(&connection, DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    set(&connection, DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Without it the bundled library compiles a statement again each time a value is bound to it.
    set(&connection, DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    for (limit, value) in
        [(Limit::SQLITE_LIMIT_LENGTH, MAX_LENGTH), (Limit::SQLITE_LIMIT_ATTACHED, 0)]
    {
        connection
            .set_limit(limit, value)
            .map_err(|error| sqlite("set the ledger's limits", &error))?;
    }
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    checksum::add(&connection)?;
    Ok(connection)
}

/// A database in memory, for comparison.
#[expect(clippy::disallowed_methods, reason = "this is the owner")]
pub(crate) fn in_memory() -> Stored<Connection> {
    let connection = Connection::open_in_memory()
        .map_err(|error| sqlite("open a database in memory", &error))?;
    checksum::add(&connection)?;
    Ok(connection)
}

fn set(connection: &Connection, config: DbConfig, on: bool) -> Stored<()> {
    connection
        .set_db_config(config, on)
        .map(drop)
        .map_err(|error| sqlite("configure the ledger's connection", &error))
}

/// The checks that need SQLite, because the newest header may be in the log. They never write.
fn identify(connection: &Connection, path: &Path) -> Stored<()> {
    let reading = |error: rusqlite::Error| match error.sqlite_error_code() {
        // Its first bytes are a ledger's, so a header that SQLite rejects is damaged.
        Some(ErrorCode::NotADatabase | ErrorCode::Unknown) => {
            damaged(&format!("the header of the ledger `{}` cannot be read", path.display()))
        }
        _ => sqlite(format!("read the ledger `{}`", path.display()), &error),
    };
    let application: i32 =
        connection.query_row("PRAGMA application_id", (), |row| row.get(0)).map_err(reading)?;
    if application != schema::APPLICATION_ID {
        return Err(StorageError::new(
            StorageErrorKind::Foreign,
            format!(
                "the ledger `{}` is a SQLite file of another application; pass another path",
                path.display()
            ),
        ));
    }
    let version = schema::version(connection)?;
    if version > schema::MIGRATIONS.len() {
        return Err(schema::newer(version));
    }
    if version == 0 {
        return Err(damaged(&format!(
            "the header of the ledger `{}` names no schema version",
            path.display()
        )));
    }
    // The first real read: SQLite compares the file's length with its header and parses the schema.
    connection
        .query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get::<_, i64>(0))
        .map_err(reading)?;
    Ok(())
}

fn configure(connection: &Connection, purpose: Purpose) -> Stored<()> {
    let failed = |error| sqlite("configure the ledger's connection", &error);
    let pragma =
        |name: &str, value: &str| connection.pragma_update(None, name, value).map_err(failed);
    pragma("foreign_keys", "ON")?;
    pragma("cell_size_check", "ON")?;
    pragma("temp_store", "MEMORY")?;
    pragma("mmap_size", "0")?;
    match purpose {
        Purpose::Read => pragma("query_only", "ON"),
        Purpose::Write(synchronous) => {
            if connection.is_readonly(rusqlite::MAIN_DB).map_err(failed)? {
                return Err(StorageError::new(
                    StorageErrorKind::ReadOnly,
                    "the ledger cannot be written; make its file and folder writable",
                ));
            }
            pragma("synchronous", synchronous.pragma())?;
            pragma("journal_size_limit", "67108864")?;
            // The writer checkpoints after its answers, so that no commit waits for it.
            pragma("wal_autocheckpoint", "0")?;
            ensure_wal(connection)
        }
    }
}

/// A ledger is created in WAL mode; a tool may have changed the mode.
fn ensure_wal(connection: &Connection) -> Stored<()> {
    let failed = |error| sqlite("put the ledger into WAL mode", &error);
    let mode: String =
        connection.query_row("PRAGMA journal_mode = WAL", (), |row| row.get(0)).map_err(failed)?;
    if mode == "wal" {
        Ok(())
    } else {
        Err(StorageError::new(
            StorageErrorKind::Locked,
            format!(
                "the ledger is in journal mode `{mode}` and another process does not leave it; close that one"
            ),
        ))
    }
}

/// Opens a new file under a temporary name, to be filled and renamed. Nothing is synced before the rename, which syncs the
/// finished file: an incomplete one is removed, so it needs no log that survives the process either.
pub(crate) fn open_draft(draft: &Path) -> Stored<Connection> {
    let connection = open_raw(draft, Purpose::Write(Synchronous::Full))?;
    set(&connection, DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    connection
        .pragma_update(None, "synchronous", "OFF")
        .and_then(|()| connection.pragma_update(None, "journal_mode", "MEMORY"))
        .map_err(|error| sqlite("configure a new ledger", &error))?;
    Ok(connection)
}

/// Creates a complete, empty ledger in a new file under a temporary name.
pub(crate) fn fill_draft(draft: &Path, clock: &Clock) -> Stored<Connection> {
    let connection = open_draft(draft)?;
    schema::migrate(&connection, schema::MIGRATIONS)?;
    schema::stamp(&connection, clock)?;
    ensure_wal(&connection)?;
    Ok(connection)
}
