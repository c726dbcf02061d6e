//! Reads of open turns: all interrupted ones, one of them, and one in the form for a host.
//!
//! An open turn is folded from its entries in the journal. It must never return an altered part as a sound one.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::journal_codec::{Damage, OpeningRecord, TurnState};
use crate::journal_rows::approval_rows;
use crate::journal_rows::entry_rows::CommitPoints;
use crate::journal_rows::run_rows::{self, CheckedRun, RunRow};
use crate::lease::claim::Claim;
use crate::rows::json::json;
use crate::rows::metadata_rows::of_column;
use crate::rows::turn_parents::{is_compacted, parent_of};
use crate::rows::{message_rows, tool_call_rows};
use crate::sessions::pointers;
use crate::sqlite::checksum::is_whole;
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::{
    AgentMessage, Message, OpenCall, OpenTurn, Progress, ReplayClass, StorageError,
    StorageErrorKind, TokenUsage, TurnRow,
};

/// The open turns that no process runs, oldest first; with `turn_id`, only that one.
pub(crate) fn interrupted(
    connection: &Connection,
    turn_id: Option<&str>,
    claim: &Claim,
) -> Stored<Vec<OpenTurn>> {
    let runs = match turn_id {
        Some(id) => open_run(connection, id)?.into_iter().collect(),
        None => run_rows::open(connection)?,
    };
    let mut found = Vec::new();
    for open in runs {
        let run = &open.run;
        if !claim.runs(connection, &run.session_label, run.epoch.unwrap_or_default())? {
            found.push(open_turn(connection, &open)?);
        }
    }
    Ok(found)
}

/// The run of a turn, if the turn is open.
pub(crate) fn open_run(connection: &Connection, turn_id: &str) -> Stored<Option<CheckedRun>> {
    Ok(run_rows::checked_of_turn(connection, turn_id)?.filter(|found| found.run.is_open()))
}

pub(crate) static CONTEXT: LazyLock<String> = LazyLock::new(|| {
    let whole = is_whole("run_contexts", "c");
    format!("SELECT hash, context_json, {whole} FROM run_contexts c WHERE id = ?1")
});

/// The provider and the model of a turn whose opening cannot be read: the turn can still be closed, and its row needs both
/// names.
const LOST: &str = "unknown";

/// The current state of an open turn.
pub(crate) fn open_turn(connection: &Connection, found: &CheckedRun) -> Stored<OpenTurn> {
    let CheckedRun { run, is_whole: is_row } = found;
    let points = CommitPoints::of(connection, run)?;
    let state = points.state();
    let context: Option<(String, String, bool)> =
        sql::optional(connection, &CONTEXT, (run.context_id,), "read the context of a run")?;
    let hash = state.opening.map(|opening| opening.context_hash);
    let is_context =
        context.as_ref().is_some_and(|(of, _, whole)| *whole && Some(of.as_str()) == hash);
    let altered = !(is_context && *is_row && state.damage == Damage::None);
    let (context, started_at) = (context.map_or_else(String::new, |it| it.1), run.created_at);
    let head = pointers::head(connection, &run.session_label)?.flatten();
    let opening = state.opening;
    let expected_head = opening.and_then(|it| it.expected_head);
    let moved = head.as_deref() != expected_head
        && (head.is_none() || !is_compacted(connection, head.as_deref(), expected_head));
    let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
    Ok(OpenTurn {
        turn_id: run.turn_id.clone(),
        run_id: run.run_id.clone(),
        session_label: run.session_label.clone(),
        parent_turn_id: owned(opening.and_then(|it| it.parent_turn_id)),
        expected_head: owned(expected_head),
        moved,
        source_event_id: owned(opening.and_then(|it| it.source_event_id)),
        target: owned(opening.and_then(|it| it.target_json)),
        started_at: opening.map_or(started_at, |it| it.started_at),
        provider: opening.map_or(LOST, |it| it.provider).to_owned(),
        model: opening.map_or(LOST, |it| it.model).to_owned(),
        messages: messages(connection, &state)?,
        calls: calls(connection, &state)?,
        progress: progress(&state, run)?,
        metadata: of_column(state.metadata.map(ToOwned::to_owned)),
        altered,
        context,
        epoch: run.epoch.unwrap_or_default(),
        approvals: approval_rows::of_turn(connection, &run.turn_id)?,
        parked: approval_rows::is_parked(connection, &run.session_label, &run.turn_id)?,
    })
}

fn progress(state: &TurnState<'_>, run: &RunRow) -> Stored<Progress> {
    Ok(json(state.progress, &run.turn_id)?.unwrap_or_default())
}

fn messages(connection: &Connection, state: &TurnState<'_>) -> Stored<Vec<Message>> {
    state.messages.iter().map(|record| message_rows::of_record(connection, record)).collect()
}

fn calls(connection: &Connection, state: &TurnState<'_>) -> Stored<Vec<OpenCall>> {
    let mut calls = Vec::new();
    for record in &state.calls {
        let replay = match record.replay {
            Some("pure") => ReplayClass::Pure,
            Some("idempotent") => ReplayClass::Idempotent,
            Some("reconcilable") => ReplayClass::Reconcilable,
            None | Some("unsafe") => ReplayClass::Unsafe,
            Some(_) => return Err(damaged(&format!("tool call `{}` has no class", record.id))),
        };
        let row = tool_call_rows::of_record(connection, record)?;
        calls.push(OpenCall { row, replay, begun: record.arguments_hash.is_some() });
    }
    Ok(calls)
}

/// An open turn in the form for a host; `None` for a turn that is not open.
///
/// # Errors
/// `ledger_corrupt` if a part of it was altered.
pub(crate) fn turn_row(connection: &Connection, turn_id: &str) -> Stored<Option<TurnRow>> {
    let Some(CheckedRun { run, is_whole }) = open_run(connection, turn_id)? else {
        return Ok(None);
    };
    let points = CommitPoints::of(connection, &run)?;
    let state = points.state();
    let (Some(opening), Damage::None, true) = (state.opening, state.damage, is_whole) else {
        return Err(damaged(&format!("turn `{turn_id}` is not as it was written")));
    };
    let parent = opening.parent_turn_id.map(|id| parent_of(connection, id)).transpose()?;
    let mut row = row_of(&opening)?;
    row.depth = parent.as_ref().map_or(0, |parent| parent.depth + 1);
    row.thread_tokens = parent.map_or(0, |parent| parent.thread_tokens);
    row.metadata = of_column(state.metadata.map(ToOwned::to_owned));
    row.messages = messages(connection, &state)?.into_iter().map(AgentMessage::from).collect();
    row.tool_calls = calls(connection, &state)?.into_iter().map(|call| call.row).collect();
    Ok(Some(row))
}

fn row_of(opening: &OpeningRecord<'_>) -> Stored<TurnRow> {
    let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
    let (id, some) = (opening.turn_id, |text: &str| Some(text.to_owned()));
    Ok(TurnRow {
        id: id.to_owned(),
        parent_turn_id: owned(opening.parent_turn_id),
        turn_type: "normal".to_owned(),
        status: "streaming".to_owned(),
        session_label: opening.session_label.to_owned(),
        run_id: opening.run_id.to_owned(),
        depth: 0,
        has_children: false,
        started_at: opening.started_at,
        completed_at: None,
        model: some(opening.model),
        provider: some(opening.provider),
        role: opening.role.to_owned(),
        toolset_name: owned(opening.toolset_name),
        tools_available: json(Some(opening.tools_available), id)?.unwrap_or_default(),
        permissions_granted: json(Some(opening.permissions_granted), id)?,
        permissions_used: None,
        usage: TokenUsage::default(),
        usage_estimated: false,
        thread_tokens: 0,
        context_tokens: None,
        cost: None,
        query_message_ids: json(Some(opening.query_message_ids), id)?.unwrap_or_default(),
        response_message_id: None,
        tool_call_count: 0,
        source_event_id: owned(opening.source_event_id),
        workspace_path: owned(opening.workspace_path),
        metadata: None,
        stop_reason: None,
        error: None,
        attempts: Vec::new(),
        compaction: None,
        messages: Vec::new(),
        tool_calls: Vec::new(),
    })
}

/// The error for a turn that has ended or does not exist.
pub(crate) fn not_open(turn_id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownTurn,
        format!("turn `{turn_id}` is not an interrupted one; pass an id that `recover()` lists"),
    )
}
