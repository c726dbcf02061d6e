//! The last step of an import, after all turns: writes the rows of compactions, and makes the sessions visible. References
//! to lost turns are replaced and reported.
//!
//! It must never let a session point at a turn that is not in the ledger.

use std::sync::LazyLock;

use rusqlite::{Connection, params_from_iter};

use super::record::SessionRecord;
use super::report::Problems;
use crate::journal::compaction::write_row;
use crate::rows::metadata_rows;
use crate::rows::turn_parents::parent_of;
use crate::sessions::pointers;
use crate::sqlite::checksum::{numbered, set};
use crate::sqlite::columns::{list, values};
use crate::sqlite::error::Stored;
use crate::sqlite::functions::agent_of;
use crate::sqlite::sql;
use model::{CompactionResult, SessionRow, StorageErrorKind, TransferCode};

/// A session of an import, with its line if the file has one line for each session.
#[derive(Debug, Clone)]
pub(super) struct Imported {
    pub(super) line: Option<u64>,
    pub(super) record: Box<SessionRecord>,
}

/// Writes the row of the compaction `id`.
pub(super) fn compaction(
    connection: &Connection,
    (line, id): (Option<u64>, &str),
    mut result: CompactionResult,
    problems: &mut Problems,
) -> Stored<()> {
    for named in [&mut result.summarized_through_turn_id, &mut result.first_kept_turn_id] {
        if !exists(connection, named)? {
            problems.add(
                line,
                TransferCode::LostReference,
                format!("compaction `{id}` names turn `{named}`, which is lost"),
            );
            // A turn is not its own ancestor: the context is bounded by the other reference, or not at all.
            id.clone_into(named);
        }
    }
    // In a reattached thread, the turn may be on another branch.
    let through = &mut result.summarized_through_turn_id;
    if through != id && !is_above(connection, id, through)? {
        let message =
            format!("compaction `{id}` summarises turn `{through}`, which is no longer above it");
        problems.add(line, TransferCode::LostReference, message);
        id.clone_into(through);
    }
    write_row(connection, id, &result)
}

static UPDATE_SESSION: LazyLock<String> = LazyLock::new(|| {
    let columns = list::<SessionRow>();
    let mut row = numbered(&columns);
    row.retain(|(name, _)| *name != "label");
    row.push(("opening", "0".to_owned()));
    format!("UPDATE sessions SET {} WHERE label = ?1", set(&row))
});

/// Completes a session that the import has created, and makes it visible.
pub(super) fn session(
    connection: &Connection,
    label: &str,
    imported: Option<&Imported>,
    problems: &mut Problems,
) -> Stored<()> {
    let deepest = deepest_turn(connection, label)?;
    let Some(Imported { line, record }) = imported else {
        problems.add(
            None,
            TransferCode::Rebuilt,
            format!("the record of session `{label}` is lost; it points at its deepest turn"),
        );
        if let Some((turn, at)) = deepest {
            pointers::move_pointer(connection, label, &turn, at)?;
        }
        return pointers::opened(connection, label);
    };
    let session = &record.session;
    let deepest = deepest.map(|(turn, _)| turn);
    let pointer = pointer(connection, (*line, record), deepest, problems)?;
    let mut parent_turn_id = session.parent_turn_id.clone();
    if let Some(lost) = &session.parent_turn_id
        && !exists(connection, lost)?
    {
        parent_turn_id = None;
        problems.add(
            *line,
            TransferCode::LostReference,
            format!("session `{label}` was spawned in `{lost}`, which is lost"),
        );
    }
    let agent_id = match session.agent_id.as_str() {
        // Without an agent in the file, the label or the persona decides.
        "" => agent_of(label, &session.persona_id),
        named => named.to_owned(),
    };
    let row = SessionRow { thread_id: pointer, parent_turn_id, agent_id, ..session.clone() };
    let doing = format_args!("write session `{label}`");
    sql::exec(connection, &UPDATE_SESSION, params_from_iter(values(&row)), doing)?;
    metadata_rows::set_on_session(connection, label, row.metadata.as_ref())?;
    let mut logged = None;
    for moved in &record.history {
        if has_ended(connection, &moved.turn_id)? {
            pointers::log(connection, label, &moved.turn_id, moved.changed_at)?;
            logged = Some(&moved.turn_id);
        }
    }
    if let Some(turn) = &row.thread_id
        && logged != Some(turn)
    {
        pointers::log(connection, label, turn, session.updated_at)?;
    }
    Ok(())
}

/// The turn that a session points at: its own, else the last one of its log or its deepest one.
fn pointer(
    connection: &Connection,
    (line, record): (Option<u64>, &SessionRecord),
    deepest: Option<String>,
    problems: &mut Problems,
) -> Stored<Option<String>> {
    let label = &record.session.label;
    let mut logged = record.history.iter().rev().map(|moved| &moved.turn_id);
    let mut pointer = record.session.thread_id.clone();
    if pointer.is_none()
        && let Some(turn) = logged.next()
    {
        let message = format!(
            "session `{label}` points at no turn, and its log at `{turn}`, which it points at now"
        );
        problems.add(line, TransferCode::LostReference, message);
        pointer = Some(turn.clone());
    }
    let Some(lost) = pointer else { return Ok(None) };
    if has_ended(connection, &lost)? {
        return Ok(Some(lost));
    }
    let mut found = deepest;
    while found.is_none()
        && let Some(turn) = logged.next()
    {
        found = has_ended(connection, turn)?.then(|| turn.clone());
    }
    let to = found.as_deref().unwrap_or("no turn");
    problems.add(
        line,
        TransferCode::LostReference,
        format!("session `{label}` pointed at `{lost}`, which is lost; it points at `{to}`"),
    );
    Ok(found)
}

/// The deepest turn of a session, the newest of several, and when it ended.
fn deepest_turn(connection: &Connection, label: &str) -> Stored<Option<(String, i64)>> {
    let select = "SELECT id, coalesce(completed_at, started_at) FROM turns WHERE session_label = ?1
         ORDER BY depth DESC, id DESC LIMIT 1";
    sql::optional(connection, select, (label,), format_args!("write session `{label}`"))
}

fn is_above(connection: &Connection, turn: &str, other: &str) -> Stored<bool> {
    let select = "WITH RECURSIVE up (id) AS (
           SELECT parent_turn_id FROM turns WHERE id = ?1
           UNION SELECT t.parent_turn_id FROM up JOIN turns t ON t.id = up.id
         ) SELECT 1 FROM up WHERE id = ?2";
    sql::exists(connection, select, (turn, other), "find a turn")
}

fn has_ended(connection: &Connection, turn: &str) -> Stored<bool> {
    match parent_of(connection, turn) {
        Ok(_) => Ok(true),
        Err(error) if error.kind == StorageErrorKind::UnknownTurn => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the ledger has the turn, ended or not.
pub(super) fn exists(connection: &Connection, turn: &str) -> Stored<bool> {
    let select = "SELECT 1 FROM turns WHERE id = ?1
         UNION ALL SELECT 1 FROM runs WHERE turn_id = ?1 AND ended_at IS NULL AND epoch IS NOT NULL";
    sql::exists(connection, select, (turn,), "find a turn")
}
