//! Reading a whole turn: its row, its messages, its tool calls, its compaction.
//!
//! It must never return a turn whose checksum differs.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::rows::json::json;
use crate::rows::message_rows;
use crate::rows::metadata_rows::{OF_TURN, of_column};
use crate::rows::tool_call_rows;
use crate::rows::turn_columns::{TurnColumns, TurnEndColumns};
use crate::sqlite::checksum::{Checked, checked};
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::{AgentMessage, CompactionResult, TurnError, TurnRow};

pub(crate) static TURN: LazyLock<String> = LazyLock::new(|| {
    let columns = checked::<TurnColumns<'_>>("turns", "t");
    format!("SELECT {columns}, t.has_children, {OF_TURN} FROM turns t WHERE t.id = ?1")
});

/// The turn with that id, without its messages, calls and compaction.
pub(crate) fn turn_alone(connection: &Connection, id: &str) -> Stored<Option<TurnRow>> {
    let doing = format_args!("read turn `{id}`");
    sql::first(connection, &TURN, (id,), doing, |fields| {
        let Checked { row, is_whole } = fields.next::<Checked<TurnColumns<'_>>>()?;
        let has_children = fields.next()?;
        let metadata = of_column(fields.next()?);
        if !is_whole {
            return Err(damaged(&format!("turn `{}` is not as it was written", row.id)));
        }
        Ok(TurnRow { has_children, metadata, ..turn_row(&row)? })
    })
}

/// The whole turn with that id.
pub(crate) fn turn(connection: &Connection, id: &str) -> Stored<Option<TurnRow>> {
    let Some(mut turn) = turn_alone(connection, id)? else { return Ok(None) };
    turn.messages =
        message_rows::messages(connection, id)?.into_iter().map(AgentMessage::from).collect();
    turn.tool_calls = tool_call_rows::tool_calls(connection, id)?;
    if turn.turn_type == "compaction" {
        turn.compaction = compaction(connection, id)?;
    }
    Ok(Some(turn))
}

/// Whether the turn has ended and is in the ledger.
pub(crate) fn exists(connection: &Connection, id: &str) -> Stored<bool> {
    let doing = format_args!("look up turn `{id}`");
    sql::exists(connection, "SELECT 1 FROM turns WHERE id = ?1", (id,), doing)
}

/// The turn from its own row, without messages and calls.
fn turn_row(row: &TurnColumns<'_>) -> Stored<TurnRow> {
    let end = &row.end;
    let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
    Ok(TurnRow {
        id: row.id.to_owned(),
        parent_turn_id: owned(row.parent_turn_id),
        turn_type: row.turn_type.to_owned(),
        status: end.status.to_owned(),
        session_label: row.session_label.to_owned(),
        run_id: row.run_id.to_owned(),
        depth: row.depth,
        has_children: false,
        started_at: row.started_at,
        completed_at: end.completed_at,
        model: owned(end.model),
        provider: owned(end.provider),
        role: row.role.to_owned(),
        toolset_name: owned(row.toolset_name),
        tools_available: json(row.tools_available, row.id)?.unwrap_or_default(),
        permissions_granted: json(row.permissions_granted, row.id)?,
        permissions_used: json(row.permissions_used, row.id)?,
        usage: end.usage,
        usage_estimated: end.usage_estimated,
        thread_tokens: end.thread_tokens,
        context_tokens: end.context_tokens,
        cost: end.cost,
        query_message_ids: json(end.query_message_ids, row.id)?.unwrap_or_default(),
        response_message_id: owned(end.response_message_id),
        tool_call_count: end.tool_call_count,
        source_event_id: owned(row.source_event_id),
        workspace_path: owned(row.workspace_path),
        metadata: None,
        stop_reason: owned(end.stop_reason),
        error: error(end),
        attempts: json(end.attempts_json, row.id)?.unwrap_or_default(),
        compaction: None,
        messages: Vec::new(),
        tool_calls: Vec::new(),
    })
}

fn error(end: &TurnEndColumns<'_>) -> Option<TurnError> {
    Some(TurnError {
        kind: end.error_kind?.to_owned(),
        message: end.error_message.unwrap_or_default().to_owned(),
        retryable: end.error_retryable.unwrap_or(false),
        code: end.error_code.map(ToOwned::to_owned),
    })
}

columns!(CompactionResult {
    summary,
    summarized_through_turn_id,
    first_kept_turn_id,
    turns_summarized,
    model,
    provider,
    tokens_before,
    tokens_after,
    summary_tokens,
    summarization_input_tokens,
    summarization_output_tokens,
    duration_ms,
    trigger,
    compaction_type,
});

pub(crate) static COMPACTION: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM compactions WHERE turn_id = ?1", list::<CompactionResult>())
});

fn compaction(connection: &Connection, turn_id: &str) -> Stored<Option<CompactionResult>> {
    let doing = format_args!("read the compaction `{turn_id}`");
    sql::optional(connection, &COMPACTION, (turn_id,), doing)
}
