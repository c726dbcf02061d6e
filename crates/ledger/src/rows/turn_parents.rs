//! What a turn continues: its parent's depth and tokens, and whether a head is a compaction of another.
//!
//! It reads, and must never write.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{StorageError, StorageErrorKind};
use turn::stale_head::Rebase;

/// What of the parent a child continues.
pub(crate) struct Parent {
    pub(crate) depth: i64,
    pub(crate) thread_tokens: i64,
}

columns!(Parent { depth, thread_tokens });

static PARENT: LazyLock<String> = LazyLock::new(|| {
    let columns = list::<Parent>();
    format!("SELECT {columns} FROM turns WHERE id = ?1 AND status NOT IN ('pending', 'streaming')")
});

/// Whether only compactions came after the head that a run started from. False where that cannot be read.
pub(crate) fn is_compacted(
    connection: &Connection,
    head: Option<&str>,
    expected: Option<&str>,
) -> bool {
    let mut rebase = Rebase::new(head, expected);
    while let Some(id) = rebase.wanted() {
        let select = "SELECT turn_type = 'compaction', parent_turn_id FROM turns WHERE id = ?1";
        let (compaction, parent) =
            sql::one(connection, select, (id,), "read a turn").unwrap_or((false, None));
        rebase.turn(compaction, parent);
    }
    rebase.is_compacted()
}

/// What a child of the turn continues.
///
/// # Errors
/// `unknown_turn`, also for one that has not ended.
pub(crate) fn parent_of(connection: &Connection, id: &str) -> Stored<Parent> {
    sql::optional(connection, &PARENT, (id,), "read the parent turn")?
        .ok_or_else(|| unknown_turn(id))
}

/// The refusal of a turn that does not exist, or has not ended.
pub(crate) fn unknown_turn(id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownTurn,
        format!("the ledger has no turn `{id}`; pass the id of a turn that has ended"),
    )
}
