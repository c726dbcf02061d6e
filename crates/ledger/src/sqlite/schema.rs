//! The schema's identity and its versions: what makes a SQLite file a ledger, and how an older one becomes current.
//!
//! A migration is never edited once published; it must never run outside one IMMEDIATE transaction.

use rusqlite::Connection;

use crate::sqlite::checksum::insert_all;
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::{Stored, damaged, sqlite};
use crate::sqlite::{functions, migrations, sql};
use base::clock::Clock;
use model::{StorageError, StorageErrorKind};

/// `NXLG`: what a ledger carries in its header, from the moment it exists under its name.
pub(crate) const APPLICATION_ID: i32 = 0x4e58_4c47;

/// A step from one version of the schema to the next.
#[derive(Clone, Copy)]
pub(crate) enum Migration {
    Sql(&'static str),
    /// One that puts rows into a form which SQL cannot make.
    Code(fn(&Connection) -> Stored<()>),
}

/// The steps from nothing to the current schema; `user_version` counts those that are done.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration::Sql(include_str!("migrations/001_ledger.sql")),
    Migration::Sql(include_str!("migrations/002_journal.sql")),
    Migration::Sql(include_str!("migrations/010_reading.sql")),
    Migration::Sql(include_str!("migrations/020_events.sql")),
    Migration::Sql(include_str!("migrations/030_profiles.sql")),
    Migration::Sql(include_str!("migrations/040_search.sql")),
    Migration::Sql(include_str!("migrations/050_cache.sql")),
    Migration::Sql(include_str!("migrations/060_blobs.sql")),
    Migration::Sql(include_str!("migrations/070_calibration.sql")),
    Migration::Sql(include_str!("migrations/080_checksums.sql")),
    Migration::Code(migrations::journal::migrate),
];

/// Brings a file to the newest of `migrations` in one transaction; six processes that try at once get one schema.
pub(crate) fn migrate(connection: &Connection, migrations: &[Migration]) -> Stored<()> {
    if version(connection)? == migrations.len() {
        return Ok(());
    }
    functions::add(connection)?;
    let failed = |error| sqlite("bring the ledger's schema up to date", &error);
    connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
    let done = apply(connection, migrations);
    let ended = match &done {
        Ok(()) => connection.execute_batch("COMMIT").map_err(failed),
        Err(_) => Ok(()),
    };
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK").map_err(failed)?;
    }
    done.and(ended)
}

fn apply(connection: &Connection, migrations: &[Migration]) -> Stored<()> {
    // Read again under the lock: another process may have been first.
    let from = version(connection)?;
    let steps = migrations.get(from..).ok_or_else(|| newer(from))?;
    for step in steps {
        match step {
            Migration::Sql(step) => migrations::step::batch(connection, step)?,
            Migration::Code(step) => step(connection)?,
        }
    }
    connection
        .pragma_update(None, "user_version", i64::try_from(migrations.len()).unwrap_or(i64::MAX))
        .map_err(|error| sqlite("write the schema's version", &error))
}

/// The row of `schema_meta`: the ledger's own ULID, and by whom it was made.
pub(crate) struct Stamp {
    pub(crate) ledger_id: String,
    pub(crate) created_at: i64,
    pub(crate) engine_version: String,
}

columns!(Stamp { ledger_id, created_at, engine_version });

/// Marks a fresh file as a ledger with an id of its own.
pub(crate) fn stamp(connection: &Connection, clock: &Clock) -> Stored<()> {
    let stamp = Stamp {
        ledger_id: clock.new_id(),
        created_at: clock.now_ms(),
        engine_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let add = insert_all::<Stamp>("schema_meta");
    sql::insert(connection, &add, &stamp, "write the ledger's id")?;
    connection
        .pragma_update(None, "application_id", APPLICATION_ID)
        .map_err(|error| sqlite("write the ledger's application id", &error))
}

/// What [`stamp`] has written.
pub(crate) fn stamp_of(connection: &Connection) -> Stored<Stamp> {
    let select = format!("SELECT {} FROM schema_meta WHERE id = 1", list::<Stamp>());
    sql::one(connection, &select, (), "read the ledger's id")
}

/// How many migrations the file has seen.
///
/// # Errors
/// `ledger_newer` when it has seen more than this version knows.
pub(crate) fn version(connection: &Connection) -> Stored<usize> {
    let version: i64 =
        sql::one(connection, "PRAGMA user_version", (), "read the schema's version")?;
    usize::try_from(version).map_err(|_| damaged("the schema's version is negative"))
}

/// The refusal of a file that a newer version wrote.
pub(crate) fn newer(version: usize) -> StorageError {
    StorageError::new(
        StorageErrorKind::Newer,
        format!(
            "the ledger has schema version `{version}` and this engine knows `{}`; update `@nexus/agent-engine`",
            MIGRATIONS.len()
        ),
    )
}
