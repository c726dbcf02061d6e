//! What a turn continues: its parent's place in the tree, and whether a head is a compaction of another.
//!
//! It reads, and must never write.

use rusqlite::{Connection, OptionalExtension};

use crate::sqlite::error::{Stored, sqlite};
use model::{StorageError, StorageErrorKind};

/// What of the parent a child continues.
pub(crate) struct Parent {
    pub(crate) depth: i64,
    pub(crate) thread_tokens: i64,
}

/// Whether the head is a compaction (of a compaction …) of the head the run began from: the one case of docs/rules/sessions-and-ledger.md#pointer-write in
/// which a run may go on.
pub(crate) fn is_compaction(connection: &Connection, head: &str, expected: Option<&str>) -> bool {
    let mut at = head.to_owned();
    loop {
        let row = connection
            .prepare_cached("SELECT turn_type, parent_turn_id FROM turns WHERE id = ?1")
            .and_then(|mut statement| {
                statement.query_row((&at,), |row| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
                })
            });
        match row {
            Ok((kind, parent)) if kind == "compaction" => {
                if parent.as_deref() == expected {
                    return true;
                }
                match parent {
                    Some(parent) => at = parent,
                    None => return false,
                }
            }
            Ok(_) | Err(_) => return false,
        }
    }
}

pub(crate) fn parent_of(connection: &Connection, id: &str) -> Stored<Parent> {
    connection
        .prepare_cached(
            "SELECT depth, thread_tokens FROM turns WHERE id = ?1 AND status NOT IN ('pending', 'streaming')",
        )
        .and_then(|mut statement| {
            statement
                .query_row((id,), |row| {
                    Ok(Parent { depth: row.get(0)?, thread_tokens: row.get(1)? })
                })
                .optional()
        })
        .map_err(|error| sqlite("read the parent turn", &error))?
        .ok_or_else(|| unknown_turn(id))
}

/// The refusal of a turn that is not there, or has not ended.
pub(crate) fn unknown_turn(id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownTurn,
        format!("the ledger has no turn `{id}`; pass the id of a turn that has ended"),
    )
}
