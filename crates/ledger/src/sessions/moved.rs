//! Where the ledger was moved to. From then on it takes no new session, turn, message, schedule, name or fact, and no change of a
//! session; a turn under way ends.
//!
//! It is checked in the transaction that would write.

use rusqlite::Connection;

use crate::sqlite::error::Stored;
use crate::sqlite::sql;

const DOING: &str = "read where the ledger was moved";
const WRITING: &str = "note where the ledger was moved";

/// Refuses to write to a ledger that was moved.
///
/// # Errors
/// `ledger_moved`.
pub(crate) fn refuse(connection: &Connection) -> Stored<()> {
    match sql::optional::<String>(connection, "SELECT place FROM moved", (), DOING)? {
        None => Ok(()),
        Some(place) => Err(portable::moved(&place)),
    }
}

/// Closes the ledger for the call with this token, also where another call had closed it: that one may have been killed.
///
/// # Errors
/// `ledger_moved` for another place than the one to which it was moved for good.
pub(crate) fn set(connection: &Connection, place: &str, token: &str) -> Stored<()> {
    let select = "SELECT 1 FROM moved WHERE is_final = 1 AND place <> ?1";
    if sql::exists(connection, select, (place,), DOING)? {
        return refuse(connection);
    }
    let set = "INSERT INTO moved (id, place, token) VALUES (1, ?1, ?2)
         ON CONFLICT (id) DO UPDATE SET place = ?1, token = ?2";
    sql::exec(connection, set, (place, token), WRITING).map(drop)
}

/// Opens the ledger again where that call has closed it, and not for good. Whether it did.
pub(crate) fn release(connection: &Connection, token: &str) -> Stored<bool> {
    let delete = "DELETE FROM moved WHERE is_final = 0 AND token = ?1";
    Ok(sql::exec(connection, delete, (token,), WRITING)? > 0)
}

/// Closes the ledger for good where that call has closed it; false where it has not.
pub(crate) fn finish(connection: &Connection, token: &str) -> Stored<bool> {
    let set = "UPDATE moved SET is_final = 1 WHERE token = ?1";
    Ok(sql::exec(connection, set, (token,), WRITING)? > 0)
}

/// What the last copy wrote that had to know whether its target is this ledger.
pub(crate) fn copy_mark(connection: &Connection) -> Stored<Option<String>> {
    sql::optional(connection, "SELECT mark FROM copy_mark", (), DOING)
}

/// Writes that.
pub(crate) fn mark_copy(connection: &Connection, mark: &str) -> Stored<bool> {
    let set = "INSERT OR REPLACE INTO copy_mark (id, mark) VALUES (1, ?1)";
    Ok(sql::exec(connection, set, (mark,), WRITING)? > 0)
}
