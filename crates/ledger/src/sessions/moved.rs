//! Where the ledger was moved to. From then on it takes no new turn, message, schedule, name or fact; a turn under way ends.
//!
//! It is checked in the transaction that would write.

use rusqlite::Connection;

use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{StorageError, StorageErrorKind};

const DOING: &str = "read where the ledger was moved";

/// Refuses to write to a ledger that was moved.
///
/// # Errors
/// `ledger_moved`.
pub(crate) fn refuse(connection: &Connection) -> Stored<()> {
    match sql::optional::<String>(connection, "SELECT place FROM moved", (), DOING)? {
        None => Ok(()),
        Some(place) => Err(StorageError::new(
            StorageErrorKind::Moved,
            format!("the ledger was moved to {place}; open that one"),
        )),
    }
}

/// Sets the mark, or removes it.
pub(crate) fn set(connection: &Connection, place: Option<&str>) -> Stored<()> {
    let doing = "note where the ledger was moved";
    match place {
        None => sql::exec(connection, "DELETE FROM moved", (), doing),
        Some(place) => {
            let set = "INSERT OR REPLACE INTO moved (id, place) VALUES (1, ?1)";
            sql::exec(connection, set, (place,), doing)
        }
    }
    .map(drop)
}
