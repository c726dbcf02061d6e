//! What the ledger tells a host about sessions and turns: the rows, with the broker interface's columns as fields.
//!
//! These are public types of the package. They must never be written back.

use crate::rows::message_rows;
use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, Row};

use crate::rows::blobs;
use crate::sqlite::checksum::is_whole;
use crate::sqlite::error::{Stored, damaged, sqlite};
use model::{
    AgentMessage, AgentToolCall, CompactionResult, SessionRow, TokenUsage, ToolCallStatus,
    TurnError, TurnRow,
};

/// The columns that [`session_row`] reads.
macro_rules! session_columns {
    () => {
        "SELECT label, thread_id, persona_id, is_subagent, parent_session_label, parent_turn_id, spawn_tool_call_id,
           task_description, task_status, routing_key, origin, origin_session_id, created_at, updated_at, status,
           agent_id"
    };
}
pub(crate) use session_columns;

pub(crate) const SESSION: &str =
    concat!(session_columns!(), " FROM sessions WHERE label = ?1 AND opening = 0");

/// The session of that label.
pub(crate) fn session(connection: &Connection, label: &str) -> Stored<Option<SessionRow>> {
    connection
        .prepare_cached(SESSION)
        .and_then(|mut statement| statement.query_row((label,), session_row).optional())
        .map_err(|error| sqlite(&format!("read session `{label}`"), &error))
}

pub(crate) fn session_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        label: row.get(0)?,
        thread_id: row.get(1)?,
        persona_id: row.get(2)?,
        is_subagent: row.get(3)?,
        parent_session_label: row.get(4)?,
        parent_turn_id: row.get(5)?,
        spawn_tool_call_id: row.get(6)?,
        task_description: row.get(7)?,
        task_status: row.get(8)?,
        routing_key: row.get(9)?,
        origin: row.get(10)?,
        origin_session_id: row.get(11)?,
        created_at: row.get(12)?,
        updated_at: row.get(13)?,
        status: row.get(14)?,
        agent_id: row.get(15)?,
    })
}

pub(crate) static TURN: LazyLock<String> = LazyLock::new(|| {
    let whole = is_whole("turns", "t");
    format!(
        "SELECT id, parent_turn_id, turn_type, status, session_label, run_id, depth, has_children, started_at,
       completed_at, model, provider, role, toolset_name, tools_available, permissions_granted, permissions_used,
       input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, total_tokens,
       usage_estimated, thread_tokens, context_tokens, cost, query_message_ids, response_message_id, tool_call_count,
       source_event_id, workspace_path, stop_reason, error_kind, error_message, error_retryable, attempts_json, error_code, {whole}
     FROM turns t WHERE id = ?1"
    )
});

/// The turn of that id, with all that hangs on it.
pub(crate) fn turn(connection: &Connection, id: &str) -> Stored<Option<TurnRow>> {
    let failed = |error| sqlite(&format!("read turn `{id}`"), &error);
    let found = connection
        .prepare_cached(&TURN)
        .and_then(|mut statement| statement.query_row((id,), turn_row).optional())
        .map_err(failed)?;
    let Some(turn) = found else { return Ok(None) };
    let mut turn = turn?;
    turn.messages =
        message_rows::messages(connection, id)?.into_iter().map(AgentMessage::from).collect();
    turn.tool_calls = tool_calls(connection, id)?;
    if turn.turn_type == "compaction" {
        turn.compaction = compaction(connection, id)?;
    }
    Ok(Some(turn))
}

fn turn_row(row: &Row<'_>) -> rusqlite::Result<Stored<TurnRow>> {
    let count = |index: usize| Ok::<_, rusqlite::Error>(row.get::<_, i64>(index)?.cast_unsigned());
    let error = match row.get::<_, Option<String>>(33)? {
        None => None,
        Some(kind) => Some(TurnError {
            kind,
            message: row.get::<_, Option<String>>(34)?.unwrap_or_default(),
            retryable: row.get::<_, Option<bool>>(35)?.unwrap_or(false),
            code: row.get(37)?,
        }),
    };
    let mut turn = TurnRow {
        id: row.get(0)?,
        parent_turn_id: row.get(1)?,
        turn_type: row.get(2)?,
        status: row.get(3)?,
        session_label: row.get(4)?,
        run_id: row.get(5)?,
        depth: row.get(6)?,
        has_children: row.get(7)?,
        started_at: row.get(8)?,
        completed_at: row.get(9)?,
        model: row.get(10)?,
        provider: row.get(11)?,
        role: row.get(12)?,
        toolset_name: row.get(13)?,
        tools_available: Vec::new(),
        permissions_granted: None,
        permissions_used: None,
        usage: TokenUsage {
            input_tokens: count(17)?,
            output_tokens: count(18)?,
            cached_input_tokens: count(19)?,
            cache_write_tokens: count(20)?,
            reasoning_tokens: count(21)?,
            total_tokens: count(22)?,
        },
        usage_estimated: row.get(23)?,
        thread_tokens: row.get(24)?,
        context_tokens: row.get(25)?,
        cost: row.get(26)?,
        query_message_ids: Vec::new(),
        response_message_id: row.get(28)?,
        tool_call_count: row.get(29)?,
        source_event_id: row.get(30)?,
        workspace_path: row.get(31)?,
        stop_reason: row.get(32)?,
        error,
        attempts: Vec::new(),
        compaction: None,
        messages: Vec::new(),
        tool_calls: Vec::new(),
    };
    if !row.get::<_, bool>(38)? {
        return Ok(Err(damaged(&format!("turn `{}` is not as it was written", turn.id))));
    }
    let (tools, queries, attempts) = (row.get(14)?, row.get(27)?, row.get(36)?);
    let (granted, used) = (row.get(15)?, row.get(16)?);
    Ok((|| {
        turn.tools_available = json(tools, &turn.id)?.unwrap_or_default();
        turn.query_message_ids = json(queries, &turn.id)?.unwrap_or_default();
        turn.attempts = json(attempts, &turn.id)?.unwrap_or_default();
        turn.permissions_granted = json(granted, &turn.id)?;
        turn.permissions_used = json(used, &turn.id)?;
        Ok(turn)
    })())
}

pub(crate) fn json<T: serde::de::DeserializeOwned>(
    text: Option<String>,
    of: &str,
) -> Stored<Option<T>> {
    text.map(|text| {
        serde_json::from_str(&text)
            .map_err(|_| damaged(&format!("a JSON column of `{of}` cannot be read")))
    })
    .transpose()
}

pub(crate) static TOOL_CALLS: LazyLock<String> = LazyLock::new(|| tool_calls_of("turn_id = ?1"));

/// The tool calls of a condition, as [`tool_call`] reads them.
pub(crate) fn tool_calls_of(condition: &str) -> String {
    let whole = is_whole("tool_calls", "c");
    format!(
        "SELECT id, provider_call_id, message_id, tool_name, status, spawned_session_label, started_at, completed_at,
           sequence, error, params_json, result_json, blobs_json, {whole}, replay, arguments_hash
         FROM tool_calls c WHERE {condition} ORDER BY turn_id, sequence"
    )
}

fn tool_calls(connection: &Connection, turn_id: &str) -> Stored<Vec<AgentToolCall>> {
    let failed = |error| sqlite(&format!("read the tool calls of turn `{turn_id}`"), &error);
    let mut statement = connection.prepare_cached(&TOOL_CALLS).map_err(failed)?;
    let mut rows = statement.query((turn_id,)).map_err(failed)?;
    let mut calls = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        calls.push(tool_call(connection, row).map_err(failed)??);
    }
    Ok(calls)
}

/// A row of [`TOOL_CALLS`], with its blobs.
pub(crate) fn tool_call(
    connection: &Connection,
    row: &Row<'_>,
) -> rusqlite::Result<Stored<AgentToolCall>> {
    let call_id: String = row.get(0)?;
    let status = match row.get_ref(4)?.as_str()? {
        "pending" => ToolCallStatus::Pending,
        "running" => ToolCallStatus::Running,
        "completed" => ToolCallStatus::Completed,
        "failed" => ToolCallStatus::Failed,
        _ => return Ok(Err(damaged(&format!("tool call `{call_id}` has no status")))),
    };
    if !row.get::<_, bool>(13)? {
        return Ok(Err(damaged(&format!("tool call `{call_id}` is not as it was written"))));
    }
    let mut values = [row.get(10)?, row.get(11)?];
    if let Some(names) = row.get::<_, Option<String>>(12)? {
        values = match blobs::call_values(connection, &names, values, &call_id) {
            Ok(whole) => whole,
            Err(error) => return Ok(Err(error)),
        };
    }
    let [params, result] = values;
    let (params, result) = match (json(params, &call_id), json(result, &call_id)) {
        (Ok(Some(params)), Ok(result)) => (params, result),
        (Err(error), _) | (_, Err(error)) => return Ok(Err(error)),
        (Ok(None), _) => return Ok(Err(damaged(&format!("tool call `{call_id}` has no params")))),
    };
    Ok(Ok(AgentToolCall {
        id: row.get(1)?,
        tool_name: row.get(3)?,
        params,
        result,
        error: row.get(9)?,
        status,
        started_at: row.get(6)?,
        completed_at: row.get(7)?,
        sequence: row.get(8)?,
        spawned_session_label: row.get(5)?,
        call_id,
        message_id: row.get::<_, Option<String>>(2)?.unwrap_or_default(),
    }))
}

pub(crate) const COMPACTION: &str =
    "SELECT summary, summarized_through_turn_id, first_kept_turn_id, turns_summarized, model, provider, tokens_before,
       tokens_after, summary_tokens, summarization_input_tokens, summarization_output_tokens, duration_ms, \"trigger\",
       compaction_type
     FROM compactions WHERE turn_id = ?1";

fn compaction(connection: &Connection, turn_id: &str) -> Stored<Option<CompactionResult>> {
    connection
        .prepare_cached(COMPACTION)
        .and_then(|mut statement| {
            statement
                .query_row((turn_id,), |row| {
                    let count = |at: usize| {
                        Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.cast_unsigned())
                    };
                    Ok(CompactionResult {
                        summary: row.get(0)?,
                        summarized_through_turn_id: row.get(1)?,
                        first_kept_turn_id: row.get(2)?,
                        turns_summarized: count(3)?,
                        model: row.get(4)?,
                        provider: row.get(5)?,
                        tokens_before: count(6)?,
                        tokens_after: count(7)?,
                        summary_tokens: count(8)?,
                        summarization_input_tokens: count(9)?,
                        summarization_output_tokens: count(10)?,
                        duration_ms: count(11)?,
                        trigger: row.get(12)?,
                        compaction_type: row.get(13)?,
                    })
                })
                .optional()
        })
        .map_err(|error| sqlite(&format!("read the compaction `{turn_id}`"), &error))
}
