//! The schema's identity and its versions: the mark of a ledger in a SQLite file, and the migration of older ones.
//!
//! A migration is never edited once published; it must never run outside one IMMEDIATE transaction.

use rusqlite::Connection;

use crate::sqlite::checksum::insert_all;
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::{Stored, damaged, sqlite};
use crate::sqlite::{functions, migrations, sql};
use base::clock::Clock;
use model::{StorageError, StorageErrorKind};

/// `NXLG`: the application id in a ledger's header, which is written before the file gets its name.
pub(crate) const APPLICATION_ID: i32 = 0x4e58_4c47;

/// A step from one version of the schema to the next.
#[derive(Clone, Copy)]
pub(crate) enum Migration {
    Sql(&'static str),
    /// A step that converts rows in code.
    Code(fn(&Connection) -> Stored<()>),
}

/// The steps from an empty file to the current schema; `user_version` counts the completed ones.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration::Sql(include_str!("migrations/format_1/001_ledger.sql")),
    Migration::Sql(include_str!("migrations/format_1/002_journal.sql")),
    Migration::Sql(include_str!("migrations/format_1/010_reading.sql")),
    Migration::Sql(include_str!("migrations/format_1/020_events.sql")),
    Migration::Sql(include_str!("migrations/format_1/030_profiles.sql")),
    Migration::Sql(include_str!("migrations/format_1/040_search.sql")),
    Migration::Sql(include_str!("migrations/format_1/050_cache.sql")),
    Migration::Sql(include_str!("migrations/format_1/060_blobs.sql")),
    Migration::Sql(include_str!("migrations/format_1/070_calibration.sql")),
    Migration::Sql(include_str!("migrations/format_1/080_checksums.sql")),
    Migration::Code(migrations::journal::migrate),
    Migration::Sql(include_str!("migrations/095_leases.sql")),
    Migration::Sql(include_str!("migrations/100_turn_numbers.sql")),
    Migration::Code(migrations::rows_of_turns::migrate),
    Migration::Code(migrations::rows_of_turns::narrow),
    Migration::Sql(include_str!("migrations/130_shared_values.sql")),
    Migration::Sql(include_str!("migrations/200_unique_run_ids.sql")),
    Migration::Sql(include_str!("migrations/210_approvals.sql")),
    Migration::Sql(include_str!("migrations/230_metadata.sql")),
    Migration::Sql(include_str!("migrations/240_deletion.sql")),
    Migration::Sql(include_str!("migrations/241_agent_views.sql")),
    Migration::Sql(include_str!("migrations/broker/300_queue.sql")),
    Migration::Sql(include_str!("migrations/broker/310_deliveries.sql")),
    Migration::Sql(include_str!("migrations/broker/311_schedules.sql")),
    Migration::Sql(include_str!("migrations/broker/320_session_prompts.sql")),
    Migration::Sql(include_str!("migrations/broker/330_dispatches.sql")),
    Migration::Sql(include_str!("migrations/broker/340_budgets.sql")),
    Migration::Sql(include_str!("migrations/broker/370_task_budgets.sql")),
    Migration::Sql(include_str!("migrations/broker/380_queue_blobs.sql")),
    Migration::Sql(include_str!("migrations/memory/400_memory.sql")),
    Migration::Sql(include_str!("migrations/memory/401_extraction.sql")),
    Migration::Sql(include_str!("migrations/moves/410_moved.sql")),
    Migration::Sql(include_str!("migrations/420_rate_queues.sql")),
    Migration::Sql(include_str!("migrations/memory/430_entities.sql")),
    Migration::Sql(include_str!("migrations/broker/440_queue_counts.sql")),
    Migration::Sql(include_str!("migrations/moves/450_moves.sql")),
];

/// Brings a file to the newest of `migrations` in one transaction; concurrent processes are serialized by the transaction.
pub(crate) fn migrate(connection: &Connection, migrations: &[Migration]) -> Stored<()> {
    if version(connection)? == migrations.len() {
        return Ok(());
    }
    functions::add(connection)?;
    let failed = |error| sqlite("bring the ledger's schema up to date", &error);
    let checks: bool = sql::one(connection, "PRAGMA foreign_keys", (), "read a setting")?;
    // A table to which others refer is written anew under its name; inside a transaction this setting cannot change.
    connection.pragma_update(None, "foreign_keys", false).map_err(failed)?;
    let done = in_transaction(connection, migrations);
    connection.pragma_update(None, "foreign_keys", checks).map_err(failed)?;
    done
}

fn in_transaction(connection: &Connection, migrations: &[Migration]) -> Stored<()> {
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

/// The row of `schema_meta`: the ledger's ULID, its time of creation, and the engine's version.
pub(crate) struct Stamp {
    pub(crate) ledger_id: String,
    pub(crate) created_at: i64,
    pub(crate) engine_version: String,
}

columns!(Stamp { ledger_id, created_at, engine_version });

/// Marks a new file as a ledger with a new id.
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

/// Reads the row that [`stamp`] has written.
///
/// # Errors
/// `ledger_corrupt` if it is gone: every ledger has one.
pub(crate) fn stamp_of(connection: &Connection) -> Stored<Stamp> {
    let select = format!("SELECT {} FROM schema_meta WHERE id = 1", list::<Stamp>());
    let stamp = sql::optional(connection, &select, (), "read the ledger's id")?;
    stamp.ok_or_else(|| damaged("the ledger has lost its id"))
}

/// The number of migrations that were applied to the file.
///
/// # Errors
/// `ledger_newer` if there are more than this version has.
pub(crate) fn version(connection: &Connection) -> Stored<usize> {
    let version: i64 =
        sql::one(connection, "PRAGMA user_version", (), "read the schema's version")?;
    usize::try_from(version).map_err(|_| damaged("the schema's version is negative"))
}

/// The error for a file that a newer version has written.
pub(crate) fn newer(version: usize) -> StorageError {
    StorageError::new(
        StorageErrorKind::Newer,
        format!(
            "the ledger has schema version `{version}` and this engine knows `{}`; update `@nexus/agent-engine`",
            MIGRATIONS.len()
        ),
    )
}
