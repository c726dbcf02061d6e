//! How a step of a migration runs its statements, and what their errors mean. It must never begin or end a transaction.

use rusqlite::{Connection, ErrorCode};

use crate::sqlite::error::{Stored, damaged, sqlite};
use model::StorageError;

/// Runs the statements of a step.
pub(crate) fn batch(connection: &Connection, step: &str) -> Stored<()> {
    connection.execute_batch(step).map_err(|error| step_failed(&error))
}

/// The steps are tested: one that SQLite does not understand meets tables which are not those of its version.
pub(crate) fn step_failed(error: &rusqlite::Error) -> StorageError {
    let is_not_understood = matches!(error, rusqlite::Error::SqlInputError { .. })
        || error.sqlite_error_code() == Some(ErrorCode::Unknown);
    if is_not_understood {
        damaged("the ledger's header has a schema version that does not fit its tables")
    } else {
        sqlite("bring the ledger's schema up to date", error)
    }
}
