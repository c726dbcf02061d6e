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

/// Sets the mark, or removes it where it is not final.
///
/// # Errors
/// `ledger_moved` for another place than that of a final mark.
pub(crate) fn set(connection: &Connection, place: Option<&str>) -> Stored<()> {
    let Some(place) = place else {
        let delete = "DELETE FROM moved WHERE is_final = 0";
        return sql::exec(connection, delete, (), WRITING).map(drop);
    };
    let select = "SELECT 1 FROM moved WHERE is_final = 1 AND place <> ?1";
    if sql::exists(connection, select, (place,), DOING)? {
        return refuse(connection);
    }
    let set =
        "INSERT INTO moved (id, place) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET place = ?1";
    sql::exec(connection, set, (place,), WRITING).map(drop)
}

/// Makes the mark final.
pub(crate) fn finish(connection: &Connection) -> Stored<()> {
    sql::exec(connection, "UPDATE moved SET is_final = 1", (), WRITING).map(drop)
}
