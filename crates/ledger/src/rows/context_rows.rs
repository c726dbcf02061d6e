//! The rows that a walk of the context reads: turns by their parents, and the cuts of compactions.
//!
//! It must never decide what is in a context: `turn::context_walk` does.

use rusqlite::Connection;

use crate::rows::turn_parents::unknown_turn;
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::TurnStatus;
use turn::context_walk::{Context, ContextWalk, Cut, TurnLink, Wanted};

/// The newest turn among `head` and its ancestors that the context no longer contains; `None` if it contains all.
pub(crate) fn newest_left_out(connection: &Connection, head: &str) -> Stored<Option<String>> {
    Ok(walk(connection, head, None)?.left_out)
}

/// The turn before the last compaction among `head` and its ancestors; `None` without a compaction.
pub(crate) fn before_compaction(connection: &Connection, head: &str) -> Stored<Option<String>> {
    let mut walk = ContextWalk::new(head, None);
    while let Some(Wanted::Turn(id)) = walk.wanted() {
        walk.turn(link(connection, id)?);
    }
    Ok(walk.before_compaction().map(ToOwned::to_owned))
}

/// The turns of the context, read row by row as the walk requests them.
pub(crate) fn walk(connection: &Connection, head: &str, known: Option<&str>) -> Stored<Context> {
    let mut walk = ContextWalk::new(head, known);
    while let Some(wanted) = walk.wanted() {
        match wanted {
            Wanted::Turn(id) => walk.turn(link(connection, id)?),
            Wanted::Cut(id) => walk.cut(cut(connection, id)?),
        }
    }
    Ok(walk.finish())
}

fn cut(connection: &Connection, compaction: &str) -> Stored<Cut> {
    let select =
        "SELECT first_kept_turn_id, summarized_through_turn_id FROM compactions WHERE turn_id = ?1";
    let doing = format_args!("read the compaction `{compaction}`");
    let (first_kept, summarized_through) = sql::one(connection, select, (compaction,), doing)?;
    Ok(Cut { first_kept, summarized_through })
}

fn link(connection: &Connection, id: &str) -> Stored<TurnLink> {
    let select = "SELECT parent_turn_id, status, turn_type FROM turns WHERE id = ?1";
    let doing = format_args!("read turn `{id}`");
    let found = sql::first(connection, select, (id,), doing, |fields| {
        let parent = fields.next()?;
        let status =
            status(fields.next()?).ok_or_else(|| damaged(&format!("turn `{id}` has no status")))?;
        let compaction = fields.next::<&str>()? == "compaction";
        Ok(TurnLink { id: id.to_owned(), parent, status, compaction })
    })?;
    found.filter(|link| link.status != TurnStatus::Streaming).ok_or_else(|| unknown_turn(id))
}

fn status(name: &str) -> Option<TurnStatus> {
    match name {
        // A pending turn counts as running: readers do not see it yet.
        "pending" | "streaming" => Some(TurnStatus::Streaming),
        "completed" => Some(TurnStatus::Completed),
        "aborted" => Some(TurnStatus::Aborted),
        "failed" => Some(TurnStatus::Failed),
        _ => None,
    }
}
