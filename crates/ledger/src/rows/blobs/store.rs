//! The table `blobs`: each distinct text over 64 KiB once, under its hash.
//!
//! A reader gets the written bytes or an error. It must never touch a value that is not large.

use std::sync::LazyLock;

use rusqlite::Connection;

use super::pack::{Packed, hash};
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::{StorageError, StorageErrorKind};

/// The largest size of a value in its row.
pub(crate) const LARGE: usize = 64 << 10;

/// A row of `blobs`.
pub(crate) struct BlobColumns<'r> {
    pub(crate) hash: &'r str,
    pub(crate) size: i64,
    pub(crate) codec: &'r str,
    pub(crate) data: &'r [u8],
}

columns!(for<'r> BlobColumns<'r> { hash, size, codec, data });

pub(crate) const THERE: &str = "SELECT 1 FROM blobs WHERE hash = ?1";
pub(crate) static READ: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM blobs WHERE hash = ?1", list::<BlobColumns<'_>>()));

static ADD: LazyLock<String> = LazyLock::new(|| {
    format!("INSERT INTO blobs ({}) VALUES (?1, ?2, ?3, ?4)", list::<BlobColumns<'_>>())
});

/// Stores a text under its hash, and returns the hash. A text that is stored already is not written again.
///
/// # Errors
/// `storage_constraint` for a text that is longer than the limit of a row; any of storage.
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
    let doing = format_args!("write blob `{hash}`");
    if !sql::exists(connection, THERE, (&hash,), doing)? {
        let Packed { size, codec, data } = Packed::of(text);
        sql::insert(
            connection,
            &ADD,
            &BlobColumns { hash: &hash, size, codec, data: &data },
            doing,
        )?;
    }
    Ok(hash)
}

/// The text of a blob to which `of` (a message, a call) refers.
///
/// # Errors
/// `ledger_corrupt` if it is lost, or has another hash.
pub(crate) fn read(connection: &Connection, hash: &str, of: &str) -> Stored<String> {
    let doing = format_args!("read blob `{hash}`");
    sql::first(connection, &READ, (hash,), doing, |fields| Ok(text(&fields.next()?)))?
        .ok_or_else(|| damaged(&format!("{of} names blob `{hash}`, which is lost")))?
        .ok_or_else(|| {
            damaged(&format!("{of} names blob `{hash}`, which is not as it was written"))
        })
}

/// The text of a blob; `None` if its hash differs.
pub(crate) fn text(blob: &BlobColumns<'_>) -> Option<String> {
    super::pack::unpack(blob.hash, blob.size, blob.codec, blob.data)
}
