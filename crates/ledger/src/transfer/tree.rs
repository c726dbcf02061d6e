//! The turns of an export in their order: parents before children, a session's own thread last.
//!
//! It must never list an open turn.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::record::{MessageNotes, TurnRecord};
use crate::rows::context_layers;
use crate::rows::turn_parents::unknown_turn;
use crate::rows::turn_rows;
use crate::sessions::pointers;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{StorageError, StorageErrorKind};

/// A session's turns: those that ran in it, its head, and all their ancestors.
const OF_SESSION: &str = "WITH RECURSIVE up (id) AS (
    SELECT id FROM turns WHERE session_label = ?1
    UNION SELECT thread_id FROM sessions WHERE label = ?1 AND thread_id IS NOT NULL
    UNION SELECT t.parent_turn_id FROM up JOIN turns t ON t.id = up.id WHERE t.parent_turn_id IS NOT NULL
  ) SELECT t.id, t.parent_turn_id FROM up JOIN turns t ON t.id = up.id
  WHERE t.status NOT IN ('pending', 'streaming') ORDER BY t.id DESC";

const ALL: &str = "SELECT id, parent_turn_id FROM turns WHERE status NOT IN ('pending', 'streaming') ORDER BY id DESC";

const NOTES: &str = "SELECT m.metadata_json, m.context_json FROM turns t CROSS JOIN message_rows m
    ON m.key BETWEEN t.n << 20 AND t.n << 20 | 1048575 WHERE t.id = ?1 ORDER BY m.key";

/// The ids of the turns of a session, or of all, depth first.
pub(super) fn turns(connection: &Connection, label: Option<&str>) -> Stored<Vec<String>> {
    let doing = "list the ledger's turns";
    let listed: Vec<(String, Option<String>)> = match label {
        None => sql::all(connection, ALL, (), doing)?,
        Some(label) => sql::all(connection, OF_SESSION, (label,), doing)?,
    };
    let parents: HashMap<&str, Option<&str>> =
        listed.iter().map(|(id, parent)| (id.as_str(), parent.as_deref())).collect();
    // The session's thread is last, so that the last line is its head.
    let mut thread = HashSet::new();
    let head = match label {
        Some(label) => pointers::head(connection, label)?.flatten(),
        None => None,
    };
    let mut next = head.as_deref();
    while let Some(id) = next
        && thread.insert(id)
    {
        next = parents.get(id).copied().flatten();
    }
    let mut children: HashMap<Option<&str>, Vec<&str>> = HashMap::new();
    for (id, parent) in &listed {
        // In a damaged ledger a parent may be missing; its child is then a root.
        let parent = parent.as_deref().filter(|parent| parents.contains_key(parent));
        children.entry(parent).or_default().push(id);
    }
    for siblings in children.values_mut() {
        // The last sibling is visited first, so the thread, which must be last, is sorted to the front.
        siblings.sort_by_key(|id| !thread.contains(id));
    }
    let mut ordered = Vec::with_capacity(listed.len());
    let mut waiting = children.remove(&None).unwrap_or_default();
    while let Some(id) = waiting.pop() {
        ordered.push(id.to_owned());
        waiting.extend(children.remove(&Some(id)).unwrap_or_default());
    }
    Ok(ordered)
}

/// The turns of the context of a head: from its last compaction on, as the next call reads them.
pub(super) fn thread(connection: &Connection, head: Option<&str>) -> Stored<Vec<String>> {
    let Some(head) = head else { return Ok(Vec::new()) };
    let history = crate::reading::history::session_history(connection, "", Some(head), None)?;
    Ok(history.turns.into_iter().map(|turn| turn.id).collect())
}

/// The record of a turn for a file.
pub(super) fn turn(connection: &Connection, id: &str) -> Stored<TurnRecord> {
    let row = turn_rows::turn(connection, id)?.ok_or_else(|| unknown_turn(id))?;
    let doing = format_args!("read the messages of turn `{id}`");
    let notes = sql::map(connection, NOTES, (id,), doing, |fields| {
        let metadata_json = fields.next()?;
        let layers: Option<String> = fields.next()?;
        Ok(MessageNotes { metadata_json, layers: context_layers::of_column(layers.as_deref())? })
    })?;
    Ok(TurnRecord::of(row, notes))
}

/// Whether an error concerns one turn only, so that the others can still be exported.
pub(super) fn is_of_one(error: &StorageError) -> bool {
    error.kind == StorageErrorKind::Corrupt
}

/// The number of running turns, of a session or of all.
pub(super) fn open_turns(connection: &Connection, label: Option<&str>) -> Stored<u64> {
    let select =
        "SELECT count(*) FROM runs WHERE in_journal = 1 AND ended_at IS NULL AND epoch IS NOT NULL
         AND session_label = coalesce(?1, session_label)";
    sql::one(connection, select, (label,), "count the turns that run")
}
