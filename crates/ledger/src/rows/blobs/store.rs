//! Values over 64 KiB: each distinct text stands once in `blobs`, and a row names what was taken out of its columns.
//!
//! A reader gets what was written, byte for byte, or an error. It must never touch a value that is not large.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::sqlite::error::{Stored, damaged, sqlite};
use model::{StorageError, StorageErrorKind};

use super::pack::{Packed, hash};

/// Bytes that a value may have in its row.
pub(crate) const LARGE: usize = 64 << 10;

pub(crate) const THERE: &str = "SELECT 1 FROM blobs WHERE hash = ?1";
pub(crate) const READ: &str = "SELECT hash, size, codec, data FROM blobs WHERE hash = ?1";

/// Stores a text under its hash, and returns the hash. A text that is there already is not written again.
///
/// # Errors
/// `storage_constraint` for a text that is longer than a row may be; any of storage.
pub(crate) fn store(connection: &Connection, text: &str) -> Stored<String> {
    if text.len() > super::pack::LONGEST {
        let message = format!(
            "a value of {} bytes is too large for the ledger, which takes {}",
            text.len(),
            super::pack::LONGEST
        );
        return Err(StorageError::new(StorageErrorKind::Constraint, message));
    }
    let hash = hash(text);
    let failed = |error| sqlite(&format!("write blob `{hash}`"), &error);
    let there = connection
        .prepare_cached(THERE)
        .and_then(|mut statement| statement.exists((&hash,)))
        .map_err(failed)?;
    if !there {
        let packed = Packed::of(text);
        connection
            .prepare_cached("INSERT INTO blobs (hash, size, codec, data) VALUES (?1, ?2, ?3, ?4)")
            .and_then(|mut statement| {
                statement.execute(params![hash, packed.size, packed.codec, packed.data])
            })
            .map_err(failed)?;
    }
    Ok(hash)
}

/// The text of a blob that `of` (a message, a call) names.
///
/// # Errors
/// `ledger_corrupt` where it is lost, or not what its hash says.
pub(crate) fn read(connection: &Connection, hash: &str, of: &str) -> Stored<String> {
    connection
        .prepare_cached(READ)
        .and_then(|mut statement| {
            statement.query_row((hash,), |row| Ok(of_row(hash, row))).optional()
        })
        .map_err(|error| sqlite(&format!("read blob `{hash}`"), &error))?
        .ok_or_else(|| damaged(&format!("{of} names blob `{hash}`, which is lost")))?
        .ok_or_else(|| {
            damaged(&format!("{of} names blob `{hash}`, which is not as it was written"))
        })
}

/// The text of a row of `hash, size, codec, data`; `None` where that is not what its hash says.
pub(crate) fn of_row(hash: &str, row: &Row<'_>) -> Option<String> {
    let (size, codec) = (row.get(1).ok()?, row.get_ref(2).ok()?.as_str().ok()?);
    super::pack::unpack(hash, size, codec, row.get_ref(3).ok()?.as_blob().ok()?)
}
