//! The tree of turns and the history of pointers: a turn's ancestry and children, a session's moves, its head at a time.
//!
//! Open turns are never included. It must never walk further than the requested page.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::rows::metadata_rows::{OF_TURN, of_column};
use crate::rows::turn_parents::{parent_of, unknown_turn};
use crate::sqlite::columns::{columns, list, list_of};
use crate::sqlite::error::Stored;
use crate::sqlite::fields::Fields;
use crate::sqlite::sql;
use model::{Page, PageOptions, SessionMove, StorageError, StorageErrorKind, TurnSummary};

pub(crate) static ONE: LazyLock<String> = LazyLock::new(|| summaries("turns t WHERE t.id = ?1"));
pub(crate) static FIRST_CHILD: LazyLock<String> = LazyLock::new(|| {
    summaries("turns p CROSS JOIN turns t ON t.n = p.first_child WHERE p.id = ?1")
});
pub(crate) static OTHER_CHILDREN: LazyLock<String> = LazyLock::new(|| {
    summaries(
        "turn_branches b CROSS JOIN turns t ON t.id = b.id WHERE b.parent_turn_id = ?1 AND b.id > ?2",
    ) + " ORDER BY b.id LIMIT ?3"
});

/// Selects the summaries of turns that have ended.
pub(crate) fn summaries(from: &str) -> String {
    format!("SELECT {} FROM {from} AND t.status NOT IN ('pending', 'streaming')", summary_columns())
}

/// The columns that [`summary`] reads, of the turn `t`.
pub(crate) fn summary_columns() -> String {
    format!("{}, {OF_TURN}", list_of::<TurnSummary>("t"))
}

/// A turn from its row.
pub(crate) fn summary(fields: &mut Fields<'_>) -> Stored<TurnSummary> {
    let row: TurnSummary = fields.next()?;
    Ok(TurnSummary { metadata: of_column(fields.next()?), ..row })
}

columns!(SessionMove { id, session_label, thread_id, changed_at });

pub(crate) static MOVES: LazyLock<String> =
    LazyLock::new(|| moves("(changed_at, id) > (?2, ?3) ORDER BY changed_at, id LIMIT ?4"));
pub(crate) const MOVE: &str = "SELECT changed_at FROM session_history WHERE id = ?1";
pub(crate) static AS_OF: LazyLock<String> =
    LazyLock::new(|| moves("changed_at <= ?2 ORDER BY changed_at DESC, id DESC LIMIT 1"));

/// Selects moves of the session `?1`.
fn moves(condition: &str) -> String {
    let columns = list::<SessionMove>();
    format!("SELECT {columns} FROM session_history WHERE session_label = ?1 AND {condition}")
}

/// The turn and its ancestors, the turn first and the root last.
///
/// # Errors
/// `unknown_turn`, also for `after`.
pub(crate) fn ancestry(
    connection: &Connection,
    turn_id: &str,
    page: &PageOptions,
) -> Stored<Page<TurnSummary>> {
    let first = one(connection, turn_id)?.ok_or_else(|| unknown_turn(turn_id))?;
    let mut next = match &page.after {
        None => Some(first),
        Some(after) => {
            let last =
                one(connection, after)?.ok_or_else(|| unknown_turn(after).at("page.after"))?;
            above(connection, &last)?
        }
    };
    let mut found = Vec::new();
    while let Some(turn) = next.take() {
        let full = found.len() == page.limit.items();
        if !full {
            next = above(connection, &turn)?;
        }
        found.push((turn.id.clone(), turn));
    }
    Ok(Page::cut(found, page.limit))
}

/// The parent of a turn.
pub(crate) fn above(connection: &Connection, turn: &TurnSummary) -> Stored<Option<TurnSummary>> {
    match &turn.parent_turn_id {
        None => Ok(None),
        Some(parent) => one(connection, parent),
    }
}

/// The turn with that id, if it has ended.
pub(crate) fn one(connection: &Connection, id: &str) -> Stored<Option<TurnSummary>> {
    sql::first(connection, &ONE, (id,), format_args!("read turn `{id}`"), summary)
}

/// The children of a turn, by their ids.
///
/// # Errors
/// `unknown_turn`.
pub(crate) fn children(
    connection: &Connection,
    turn_id: &str,
    page: &PageOptions,
) -> Stored<Page<TurnSummary>> {
    parent_of(connection, turn_id)?;
    let after = page.after.as_deref().unwrap_or_default();
    let doing = format_args!("read the children of turn `{turn_id}`");
    let values = (turn_id, after, page.limit.and_one());
    let mut found = sql::map(connection, &OTHER_CHILDREN, values, doing, summary)?;
    let first = sql::first(connection, &FIRST_CHILD, (turn_id,), doing, summary)?;
    if let Some(first) = first.filter(|first| first.id.as_str() > after) {
        let at = found.partition_point(|turn| turn.id < first.id);
        found.insert(at, first);
    }
    Ok(Page::cut(found.into_iter().map(|turn| (turn.id.clone(), turn)).collect(), page.limit))
}

/// The turns at which the session has pointed, oldest first.
pub(crate) fn session_history(
    connection: &Connection,
    label: &str,
    page: &PageOptions,
) -> Stored<Page<SessionMove>> {
    let doing = format_args!("read the moves of session `{label}`");
    let (changed_at, id) = match &page.after {
        None => (i64::MIN, i64::MIN),
        Some(after) => {
            let no_move = || no_cursor("page.after", after);
            let id: i64 = after.parse().map_err(|_| no_move())?;
            let changed_at: Option<i64> = sql::optional(connection, MOVE, (id,), doing)?;
            (changed_at.ok_or_else(no_move)?, id)
        }
    };
    let values = (label, changed_at, id, page.limit.and_one());
    let found: Vec<SessionMove> = sql::all(connection, &MOVES, values, doing)?;
    Ok(Page::cut(found.into_iter().map(|it| (it.id.to_string(), it)).collect(), page.limit))
}

/// The turn at which the session pointed at a time.
pub(crate) fn as_of(
    connection: &Connection,
    label: &str,
    time: i64,
) -> Stored<Option<SessionMove>> {
    let doing = format_args!("read the moves of session `{label}`");
    sql::optional(connection, &AS_OF, (label, time), doing)
}

pub(crate) const WAS_HEAD: &str =
    "SELECT 1 FROM session_history WHERE session_label = ?1 AND changed_at = ?3 AND thread_id = ?2";

/// Whether the session was moved to the turn at that time.
pub(crate) fn was_head(
    connection: &Connection,
    label: &str,
    (turn_id, at): (&str, i64),
) -> Stored<bool> {
    let doing = format_args!("read the moves of session `{label}`");
    sql::exists(connection, WAS_HEAD, (label, turn_id, at), doing)
}

/// The error for a cursor that no page returned.
pub(crate) fn no_cursor(field: &str, after: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::InvalidQuery,
        format!("`{field}`: `{after}` is not the `next` of a page"),
    )
    .at(field)
}
