//! The row of a turn as a file tells it, in one statement.
//!
//! What the schema's rules refuse is an error of that turn. It must never take a depth or a sum from the file.

use rusqlite::{Connection, params};

use super::super::error::{Stored, sqlite};
use super::super::write::{Parent, count, integer, json};
use super::record::TurnRecord;

/// Keeps what a message's origin said beyond it.
pub(super) fn note(
    connection: &Connection,
    turn: &str,
    message: &str,
    metadata: &str,
) -> Stored<()> {
    connection
        .prepare_cached("UPDATE messages SET metadata_json = ?3 WHERE turn_id = ?1 AND id = ?2")
        .and_then(|mut statement| statement.execute((turn, message, metadata)))
        .map(drop)
        .map_err(|error| sqlite(&format!("write message `{message}`"), &error))
}

/// Writes the row of a turn under `parent`, with the depth and the tokens that follow from it.
pub(super) fn insert(
    connection: &Connection,
    turn: &TurnRecord,
    parent: Option<&(String, Parent)>,
) -> Stored<()> {
    let error = turn.error.as_ref();
    let total = integer(turn.usage.total_tokens);
    connection
        .prepare_cached(
            "INSERT INTO turns (id, parent_turn_id, turn_type, status, depth, thread_tokens, session_label, run_id,
               started_at, completed_at, model, provider, role, toolset_name, tools_available, permissions_granted,
               permissions_used, input_tokens, output_tokens, cached_input_tokens, cache_write_tokens,
               reasoning_tokens, total_tokens, usage_estimated, context_tokens, cost, query_message_ids,
               response_message_id, tool_call_count, source_event_id, workspace_path, stop_reason, error_kind,
               error_message, error_retryable, attempts_json, error_code)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
               ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                turn.id,
                parent.map(|(id, _)| id),
                turn.turn_type,
                turn.status,
                parent.map_or(0, |(_, parent)| parent.depth + 1),
                parent.map_or(0, |(_, parent)| parent.thread_tokens).saturating_add(total),
                turn.session_label,
                turn.run_id,
                turn.started_at,
                turn.completed_at,
                turn.model,
                turn.provider,
                turn.role,
                turn.toolset_name,
                json(&turn.tools_available),
                turn.permissions_granted.as_deref().map(serde_json::value::RawValue::get),
                turn.permissions_used.as_deref().map(serde_json::value::RawValue::get),
                integer(turn.usage.input_tokens),
                integer(turn.usage.output_tokens),
                integer(turn.usage.cached_input_tokens),
                integer(turn.usage.cache_write_tokens),
                integer(turn.usage.reasoning_tokens),
                total,
                turn.usage_estimated,
                turn.context_tokens,
                turn.cost,
                json(&turn.query_message_ids),
                turn.response_message_id,
                count(turn.tool_calls.len()),
                turn.source_event_id,
                turn.workspace_path,
                turn.stop_reason,
                error.map(|error| error.kind.as_str()),
                error.map(|error| error.message.as_str()),
                error.map(|error| error.retryable),
                json(&turn.attempts),
                error.and_then(|error| error.code.as_deref()),
            ])
        })
        .map(drop)
        .map_err(|error| sqlite(&format!("write turn `{}`", turn.id), &error))
}
