//! Migrations 110 and 120: the first moves messages and tool calls to tables whose key names their turn, the second makes the
//! rows of turns narrow.
//!
//! They must never leave out a row or a reference: a ledger with a row that belongs to no turn is refused, and can be salvaged.

use rusqlite::Connection;

use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::migrations::step::batch;
use crate::sqlite::sql;

/// Rows that no key can name.
const LEFT_OUT: &str = "SELECT 1 FROM messages WHERE sequence > 1048575 OR turn_id NOT IN (SELECT id FROM turns)
     UNION ALL SELECT 1 FROM tool_calls WHERE sequence > 1048575 OR turn_id NOT IN (SELECT id FROM turns)";

/// Turns whose parent no number can name.
const WITHOUT_PARENT: &str =
    "SELECT 1 FROM turns WHERE parent_turn_id NOT IN (SELECT id FROM turns)";

/// The step from schema version 13 to 14.
pub(crate) fn migrate(connection: &Connection) -> Stored<()> {
    refuse(connection, LEFT_OUT, "a message or a tool call that belongs to no turn")?;
    batch(connection, include_str!("110_rows_of_turns.sql"))
}

/// The step from schema version 14 to 15.
pub(crate) fn narrow(connection: &Connection) -> Stored<()> {
    refuse(connection, WITHOUT_PARENT, "a turn whose parent does not exist")?;
    batch(connection, include_str!("120_turn_rows.sql"))
}

/// Refuses a ledger in which `select` finds a row.
fn refuse(connection: &Connection, select: &str, what: &str) -> Stored<()> {
    if sql::exists(connection, select, (), "bring the ledger's schema up to date")? {
        return Err(damaged(&format!("the ledger has {what}; salvage it into a fresh one")));
    }
    Ok(())
}
