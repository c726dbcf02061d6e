//! Writes that leave no copy of what they move or delete: a page that is split would otherwise have one behind its rows.
//!
//! It must never leave the connection's setting changed.

use rusqlite::Connection;

use crate::sqlite::error::{Stored, sqlite};

/// Runs a write of the memory.
pub(crate) fn securely<T>(
    connection: &Connection,
    write: impl FnOnce(&Connection) -> Stored<T>,
) -> Stored<T> {
    let secure = |on: bool| {
        connection
            .pragma_update(None, "secure_delete", on)
            .map_err(|error| sqlite("write to the memory", &error))
    };
    secure(true)?;
    let done = write(connection);
    secure(false)?;
    done
}
