//! What a turn continues: its parent's place in the tree, and whether a head is a compaction of another.
//!
//! It reads, and must never write.

use rusqlite::{Connection, OptionalExtension};

use crate::sqlite::error::{Stored, sqlite};
use model::{StorageError, StorageErrorKind};
use turn::stale_head::Rebase;

/// What of the parent a child continues.
pub(crate) struct Parent {
    pub(crate) depth: i64,
    pub(crate) thread_tokens: i64,
}

/// Whether only compactions came after the head that a run knew; not where that cannot be read.
pub(crate) fn is_compacted(
    connection: &Connection,
    head: Option<&str>,
    expected: Option<&str>,
) -> bool {
    let mut rebase = Rebase::new(head, expected);
    while let Some(id) = rebase.wanted() {
        let row = connection
            .prepare_cached(
                "SELECT turn_type = 'compaction', parent_turn_id FROM turns WHERE id = ?1",
            )
            .and_then(|mut statement| {
                statement.query_row((id,), |row| Ok((row.get(0)?, row.get(1)?)))
            });
        let (compaction, parent) = row.unwrap_or((false, None));
        rebase.turn(compaction, parent);
    }
    rebase.is_compacted()
}

/// What a child of the turn continues.
///
/// # Errors
/// `unknown_turn`, also for one that has not ended.
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
