//! The parents of turns: a parent's depth and tokens, and whether only compactions separate two heads.
//!
//! It must never write.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{StorageError, StorageErrorKind};
use turn::stale_head::Rebase;

/// The values of a parent from which those of its child follow.
pub(crate) struct Parent {
    pub(crate) n: i64,
    pub(crate) depth: i64,
    pub(crate) thread_tokens: i64,
}

columns!(Parent { n, depth, thread_tokens });

static PARENT: LazyLock<String> = LazyLock::new(|| {
    let columns = list::<Parent>();
    format!("SELECT {columns} FROM turns WHERE id = ?1 AND status NOT IN ('pending', 'streaming')")
});

/// Whether only compactions follow the head from which a run started. False if that cannot be read.
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

/// Reads the parent of a new turn.
///
/// # Errors
/// `unknown_turn`, also for one that has not ended.
pub(crate) fn parent_of(connection: &Connection, id: &str) -> Stored<Parent> {
    sql::optional(connection, &PARENT, (id,), "read the parent turn")?
        .ok_or_else(|| unknown_turn(id))
}

/// The error for a turn that does not exist or has not ended.
pub(crate) fn unknown_turn(id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownTurn,
        format!("the ledger has no turn `{id}`; pass the id of a turn that has ended"),
    )
}
