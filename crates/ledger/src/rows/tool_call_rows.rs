//! The rows of `call_values`: their columns, and reading those of a turn with their large values.
//!
//! It must never return a call whose checksum differs.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::journal_codec::CallRecord;
use crate::rows::blobs;
use crate::rows::json::json;
use crate::rows::row_key::{OF_TURN, key, sequence_of};
use crate::sqlite::checksum::{Checked, checked};
use crate::sqlite::columns::columns;
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::{AgentToolCall, ToolCallStatus};

/// A row of the view `call_values`.
pub(crate) struct ToolCallColumns<'r> {
    pub(crate) id: &'r str,
    /// Its turn and its position: see `row_key`.
    pub(crate) key: i64,
    pub(crate) provider_call_id: &'r str,
    pub(crate) message_id: Option<&'r str>,
    pub(crate) tool_name: &'r str,
    pub(crate) status: &'r str,
    pub(crate) spawned_session_label: Option<&'r str>,
    pub(crate) started_at: i64,
    pub(crate) completed_at: Option<i64>,
    pub(crate) error: Option<&'r str>,
    pub(crate) params_json: Option<&'r str>,
    pub(crate) result_json: Option<&'r str>,
    pub(crate) replay: Option<&'r str>,
    pub(crate) arguments_hash: Option<&'r str>,
    pub(crate) blobs_json: Option<&'r str>,
}

columns!(for<'r> ToolCallColumns<'r> {
    id,
    key,
    provider_call_id,
    message_id,
    tool_name,
    status,
    spawned_session_label,
    started_at,
    completed_at,
    error,
    params_json,
    result_json,
    replay,
    arguments_hash,
    blobs_json,
});

pub(crate) static TOOL_CALLS: LazyLock<String> = LazyLock::new(|| tool_calls_of("t.id = ?1"));

/// Selects tool calls by a condition on them and on their turn `t`, with the columns that [`tool_call`] reads.
pub(crate) fn tool_calls_of(condition: &str) -> String {
    let columns = checked::<ToolCallColumns<'_>>("call_values", "c");
    format!(
        "SELECT {columns} FROM turns t CROSS JOIN call_values c ON c.key {OF_TURN} WHERE {condition} ORDER BY t.n, c.key"
    )
}

/// The tool calls of a turn, in order.
pub(crate) fn tool_calls(connection: &Connection, turn_id: &str) -> Stored<Vec<AgentToolCall>> {
    let doing = format_args!("read the tool calls of turn `{turn_id}`");
    sql::map(connection, &TOOL_CALLS, (turn_id,), doing, |fields| {
        tool_call(connection, &fields.next()?)
    })
}

/// A tool call from its row, with its large values.
pub(crate) fn tool_call(
    connection: &Connection,
    checked: &Checked<ToolCallColumns<'_>>,
) -> Stored<AgentToolCall> {
    let Checked { row, is_whole } = checked;
    let call_id = row.id;
    let status = match row.status {
        "pending" => ToolCallStatus::Pending,
        "running" => ToolCallStatus::Running,
        "completed" => ToolCallStatus::Completed,
        "failed" => ToolCallStatus::Failed,
        _ => return Err(damaged(&format!("tool call `{call_id}` has no status"))),
    };
    if !is_whole {
        return Err(damaged(&format!("tool call `{call_id}` is not as it was written")));
    }
    let whole;
    let [params, result] = match row.blobs_json {
        None => [row.params_json, row.result_json],
        Some(names) => {
            let values = [row.params_json, row.result_json];
            whole = blobs::call_values(connection, names, values, call_id)?;
            [whole[0].as_deref(), whole[1].as_deref()]
        }
    };
    let params = json(params, call_id)?
        .ok_or_else(|| damaged(&format!("tool call `{call_id}` has no params")))?;
    Ok(AgentToolCall {
        id: row.provider_call_id.to_owned(),
        tool_name: row.tool_name.to_owned(),
        params,
        result: json(result, call_id)?,
        error: row.error.map(ToOwned::to_owned),
        status,
        started_at: row.started_at,
        completed_at: row.completed_at,
        sequence: sequence_of(row.key),
        spawned_session_label: row.spawned_session_label.map(ToOwned::to_owned),
        call_id: call_id.to_owned(),
        message_id: row.message_id.unwrap_or_default().to_owned(),
    })
}

/// The row of a call of the journal in the turn with the number `turn`.
pub(crate) fn columns_of<'r>(turn: i64, record: &CallRecord<'r>) -> Stored<ToolCallColumns<'r>> {
    Ok(ToolCallColumns {
        id: record.id,
        key: key(turn, record.sequence)?,
        provider_call_id: record.provider_call_id,
        message_id: record.message_id,
        tool_name: record.tool_name,
        status: record.status,
        spawned_session_label: record.spawned_session_label,
        started_at: record.started_at,
        completed_at: record.completed_at,
        error: record.error,
        params_json: Some(record.params_json),
        result_json: record.result_json,
        replay: record.replay,
        arguments_hash: record.arguments_hash,
        blobs_json: record.blobs_json,
    })
}

/// A tool call of the journal, with its large values.
pub(crate) fn of_record(connection: &Connection, record: &CallRecord<'_>) -> Stored<AgentToolCall> {
    tool_call(connection, &Checked { row: columns_of(0, record)?, is_whole: true })
}
