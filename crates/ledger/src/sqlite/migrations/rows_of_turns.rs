//! Migration 110: moves messages and tool calls to tables whose key names their turn.
//!
//! It must never leave out a row: a ledger with a row that belongs to no turn is refused, and can be salvaged.

use rusqlite::Connection;

use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::migrations::step::batch;
use crate::sqlite::sql;

/// Rows that no key can name.
const LEFT_OUT: &str = "SELECT 1 FROM messages WHERE sequence > 1048575 OR turn_id NOT IN (SELECT id FROM turns)
     UNION ALL SELECT 1 FROM tool_calls WHERE sequence > 1048575 OR turn_id NOT IN (SELECT id FROM turns)";

/// The step from schema version 13 to 14.
pub(crate) fn migrate(connection: &Connection) -> Stored<()> {
    if sql::exists(connection, LEFT_OUT, (), "bring the ledger's schema up to date")? {
        return Err(damaged(
            "the ledger has a message or a tool call that belongs to no turn; salvage it into a fresh one",
        ));
    }
    batch(connection, include_str!("110_rows_of_turns.sql"))
}
