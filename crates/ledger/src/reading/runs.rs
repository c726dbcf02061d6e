//! Runs by the host's id, and as a list: those that have not ended by their rows, the others by their turns.
//!
//! It must never return a run whose turn cannot be read.

use std::sync::LazyLock;

use rusqlite::Connection;
use rusqlite::types::Value;

use crate::journal_rows::event_rows;
use crate::journal_rows::run_rows::{self, RunRow};
use crate::journal_rows::run_state::{Live, state};
use crate::reading::turn_tree;
use crate::rows::turn_rows;
use crate::sessions::aliases;
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::{EndedRun, Page, RunFilter, RunInfo, RunStatus, StorageError, TurnSummary};

pub(crate) static RUNS: LazyLock<String> = LazyLock::new(|| newest_first("LIMIT ?3", ""));
pub(crate) static RUNS_OF_SESSION: LazyLock<String> =
    LazyLock::new(|| newest_first("LIMIT ?4", "AND t.session_label = ?3"));

/// Selects turns before the turn `?1`, with the status `?2`.
fn newest_first(limit: &str, condition: &str) -> String {
    let from = format!(
        "turns t WHERE t.id < ?1 AND t.turn_type = 'normal' AND (?2 IS NULL OR t.status = ?2) {condition}"
    );
    format!("{} ORDER BY t.id DESC {limit}", turn_tree::summaries(&from))
}

/// The newest run with the host's id.
pub(crate) fn info(
    connection: &Connection,
    live: &Live<'_>,
    run_id: &str,
) -> Stored<Option<RunInfo>> {
    if let Some(run) = run_rows::of_run(connection, run_id)?
        && !run.has_ended()
    {
        return of_row(connection, live, &run).map(Some);
    }
    let Some(turn_id) = ended_turn(connection, run_id)? else { return Ok(None) };
    let turn = turn_tree::one(connection, &turn_id)?.ok_or_else(|| lost(run_id, &turn_id))?;
    of_turn(connection, turn).map(Some)
}

/// The turn of the newest run with the host's id, if that has ended.
fn ended_turn(connection: &Connection, run_id: &str) -> Stored<Option<String>> {
    match run_rows::of_run(connection, run_id)? {
        Some(run) => Ok(run.has_ended().then_some(run.turn_id)),
        None => of_turns(connection, run_id),
    }
}

/// The turn of the newest run with the host's id, open or ended.
pub(crate) fn turn_of(connection: &Connection, run_id: &str) -> Stored<Option<String>> {
    match run_rows::of_run(connection, run_id)? {
        Some(run) => Ok(Some(run.turn_id)),
        None => of_turns(connection, run_id),
    }
}

pub(crate) const OF_RUN: &str =
    "SELECT id FROM turns WHERE run_id = ?1 AND turn_type = 'normal' ORDER BY n DESC LIMIT 1";

/// The newest turn that has ended with the host's id.
fn of_turns(connection: &Connection, run_id: &str) -> Stored<Option<String>> {
    sql::optional(connection, OF_RUN, (run_id,), format_args!("find run `{run_id}`"))
}

fn lost(run_id: &str, turn_id: &str) -> StorageError {
    damaged(&format!("turn `{turn_id}` of run `{run_id}` is missing"))
}

/// The runs of `filter`, the newest first.
pub(crate) fn list(
    connection: &Connection,
    live: &Live<'_>,
    filter: &RunFilter,
) -> Stored<Page<RunInfo>> {
    let label = filter.session.as_deref().map(|it| aliases::resolve(connection, it)).transpose()?;
    let mut found = Vec::new();
    if filter.status.is_none_or(|status| !status.has_ended()) {
        let is_on_page = |run: &RunRow| {
            filter.cursor.as_ref().is_none_or(|cursor| run.turn_id < *cursor)
                && label.as_ref().is_none_or(|label| run.session_label == *label)
        };
        for run in run_rows::not_ended(connection)?.iter().filter(|run| is_on_page(run)) {
            let run = of_row(connection, live, run)?;
            if filter.status.is_none_or(|status| run.status == status) {
                found.push(run);
            }
        }
    }
    if filter.status.is_none_or(RunStatus::has_ended) {
        for turn in ended(connection, filter, label.as_deref())? {
            found.push(of_turn(connection, turn)?);
        }
    }
    found.sort_by(|one, other| other.turn_id.cmp(&one.turn_id));
    let keyed = found.into_iter().map(|run| (run.turn_id.clone(), run)).collect();
    Ok(Page::cut(keyed, filter.limit))
}

fn ended(
    connection: &Connection,
    filter: &RunFilter,
    label: Option<&str>,
) -> Stored<Vec<TurnSummary>> {
    // In SQLite's order a blob is greater than every text.
    let before = filter.cursor.clone().map_or(Value::Blob(Vec::new()), Value::Text);
    let status = filter.status.map(RunStatus::as_str);
    let (limit, doing) = (filter.limit.and_one(), "list the runs");
    match label {
        None => sql::all(connection, &RUNS, (before, status, limit), doing),
        Some(label) => {
            sql::all(connection, &RUNS_OF_SESSION, (before, status, label, limit), doing)
        }
    }
}

/// A run that has ended.
fn of_turn(connection: &Connection, turn: TurnSummary) -> Stored<RunInfo> {
    let last_seq = match run_rows::of_turn(connection, &turn.id)? {
        Some(run) if run.keeps_events => event_rows::last(connection, &run, 0)?,
        Some(_) | None => 0,
    };
    let status = match turn.status.as_str() {
        "completed" => RunStatus::Completed,
        "aborted" => RunStatus::Aborted,
        _ => RunStatus::Failed,
    };
    Ok(RunInfo {
        run_id: turn.run_id,
        turn_id: turn.id,
        session_label: turn.session_label,
        status,
        last_seq,
        started_at: turn.started_at,
        ended_at: turn.completed_at,
        process: None,
    })
}

/// A run that has not ended.
fn of_row(connection: &Connection, live: &Live<'_>, run: &RunRow) -> Stored<RunInfo> {
    let (status, process) = state(connection, live, run)?;
    Ok(RunInfo {
        run_id: run.run_id.clone(),
        turn_id: run.turn_id.clone(),
        session_label: run.session_label.clone(),
        status,
        last_seq: if run.keeps_events { event_rows::last(connection, run, 0)? } else { 0 },
        started_at: run.created_at,
        ended_at: None,
        process,
    })
}

/// The end of a run, as far as it has one.
pub(crate) enum End {
    /// It has ended.
    Ended(Box<EndedRun>),
    /// A process runs it, or it waits.
    Open,
    /// No process runs it.
    Interrupted,
    /// The file has no such run.
    Unknown,
}

/// The end of the newest run with the host's id.
pub(crate) fn end(connection: &Connection, live: &Live<'_>, run_id: &str) -> Stored<End> {
    if let Some(run) = run_rows::of_run(connection, run_id)?
        && !run.has_ended()
    {
        return Ok(match state(connection, live, &run)?.0 {
            RunStatus::Interrupted => End::Interrupted,
            RunStatus::Waiting
            | RunStatus::Running
            | RunStatus::AwaitingApproval
            | RunStatus::Completed
            | RunStatus::Aborted
            | RunStatus::Failed => End::Open,
        });
    }
    let Some(turn_id) = ended_turn(connection, run_id)? else { return Ok(End::Unknown) };
    let turn = turn_rows::turn(connection, &turn_id)?.ok_or_else(|| lost(run_id, &turn_id))?;
    let parent = match &turn.parent_turn_id {
        Some(parent) => turn_rows::turn(connection, parent)?,
        None => None,
    };
    let compaction = parent.filter(|it| it.run_id == turn.run_id).and_then(|it| it.compaction);
    let in_thread = turn.status == "failed"
        || match turn.completed_at {
            Some(at) => turn_tree::was_head(connection, &turn.session_label, (&turn.id, at))?,
            None => false,
        };
    Ok(End::Ended(Box::new(EndedRun { turn, compaction, in_thread })))
}
