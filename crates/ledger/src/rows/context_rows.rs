//! The rows that a walk of the context wants: turns by their parents, and what a compaction cut.
//!
//! It must never decide what is in a context: that is `turn::context_walk`.

use rusqlite::{Connection, OptionalExtension};

use crate::rows::turn_parents::unknown_turn;
use crate::sqlite::error::{Stored, damaged, sqlite};
use model::TurnStatus;
use turn::context_walk::{Context, ContextWalk, Cut, TurnLink, Wanted};

/// The newest turn at or above `head` that its context no longer holds; `None` where it holds everything.
pub(crate) fn newest_left_out(connection: &Connection, head: &str) -> Stored<Option<String>> {
    Ok(walk(connection, head, None)?.left_out)
}

/// The turn before the last compaction at or above `head`; `None` where there is no compaction.
pub(crate) fn before_compaction(connection: &Connection, head: &str) -> Stored<Option<String>> {
    let mut walk = ContextWalk::new(head, None);
    while let Some(Wanted::Turn(id)) = walk.wanted() {
        walk.turn(link(connection, id)?);
    }
    Ok(walk.before_compaction().map(ToOwned::to_owned))
}

/// The turns of the context, row by row as the walk wants them.
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
    connection
        .prepare_cached(
            "SELECT first_kept_turn_id, summarized_through_turn_id FROM compactions WHERE turn_id = ?1",
        )
        .and_then(|mut statement| {
            statement.query_row((compaction,), |row| {
                Ok(Cut { first_kept: row.get(0)?, summarized_through: row.get(1)? })
            })
        })
        .map_err(|error| sqlite(&format!("read the compaction `{compaction}`"), &error))
}

fn link(connection: &Connection, id: &str) -> Stored<TurnLink> {
    connection
        .prepare_cached("SELECT parent_turn_id, status, turn_type FROM turns WHERE id = ?1")
        .and_then(|mut statement| {
            statement
                .query_row((id,), |row| {
                    Ok((
                        row.get::<_, Option<String>>(0)?,
                        status(row.get_ref(1)?.as_str()?),
                        row.get_ref(2)?.as_str()? == "compaction",
                    ))
                })
                .optional()
        })
        .map_err(|error| sqlite(&format!("read turn `{id}`"), &error))?
        .ok_or_else(|| unknown_turn(id))
        .and_then(|(parent, status, compaction)| {
            let status = status.ok_or_else(|| damaged(&format!("turn `{id}` has no status")))?;
            if status == TurnStatus::Streaming {
                return Err(unknown_turn(id));
            }
            Ok(TurnLink { id: id.to_owned(), parent, status, compaction })
        })
}

fn status(name: &str) -> Option<TurnStatus> {
    match name {
        // A turn that is only announced counts as one that runs, and to every reader it is not there yet.
        "pending" | "streaming" => Some(TurnStatus::Streaming),
        "completed" => Some(TurnStatus::Completed),
        "aborted" => Some(TurnStatus::Aborted),
        "failed" => Some(TurnStatus::Failed),
        _ => None,
    }
}
