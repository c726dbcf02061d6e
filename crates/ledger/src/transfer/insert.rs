//! Writes the row of an imported turn, and the metadata of its messages.
//!
//! A row that breaks a rule of the schema is an error of that turn. It must never take a depth or a sum from the file.

use std::sync::LazyLock;

use rusqlite::Connection;
use serde_json::value::RawValue;

use crate::journal::write::{count, integer, json};
use crate::rows::metadata_rows;
use crate::rows::narrow::turn_insert;
use crate::rows::turn_columns::{TurnColumns, TurnEndColumns};
use crate::sqlite::checksum::set;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use portable::{Parent, TurnRecord};

static SET_METADATA: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("metadata_json", "?3")]);
    format!(
        "UPDATE message_rows SET {change} WHERE key BETWEEN ?1 << 20 AND ?1 << 20 | 1048575 AND id = ?2"
    )
});

/// Stores the fields of the imported format that the blocks of a message lack.
pub(super) fn set_metadata(
    connection: &Connection,
    turn: i64,
    message: &str,
    metadata: &str,
) -> Stored<()> {
    let doing = format_args!("write message `{message}`");
    sql::exec(connection, &SET_METADATA, (turn, message, metadata), doing).map(drop)
}

/// Writes the row of a turn under `parent`, with the depth and the tokens that follow from it. Returns the turn's number.
pub(super) fn insert(
    connection: &Connection,
    turn: &TurnRecord,
    parent: Option<&Parent>,
) -> Stored<i64> {
    let error = turn.error.as_ref();
    let above = parent.map_or(0, |parent| parent.thread_tokens);
    let (tools, queries) = (json(&turn.tools_available), json(&turn.query_message_ids));
    let attempts = json(&turn.attempts);
    let row = TurnColumns {
        id: &turn.id,
        parent_turn_id: parent.map(|parent| parent.id.as_str()),
        turn_type: &turn.turn_type,
        depth: parent.map_or(0, |parent| parent.depth + 1),
        session_label: &turn.session_label,
        run_id: &turn.run_id,
        started_at: turn.started_at,
        role: &turn.role,
        toolset_name: turn.toolset_name.as_deref(),
        tools_available: Some(&tools),
        permissions_granted: turn.permissions_granted.as_deref().map(RawValue::get),
        permissions_used: turn.permissions_used.as_deref().map(RawValue::get),
        source_event_id: turn.source_event_id.as_deref(),
        workspace_path: turn.workspace_path.as_deref(),
        end: TurnEndColumns {
            status: &turn.status,
            completed_at: turn.completed_at,
            thread_tokens: above.saturating_add(integer(turn.usage.total_tokens)),
            model: turn.model.as_deref(),
            provider: turn.provider.as_deref(),
            usage: turn.usage,
            usage_estimated: turn.usage_estimated,
            context_tokens: turn.context_tokens,
            cost: turn.cost,
            query_message_ids: Some(&queries),
            response_message_id: turn.response_message_id.as_deref(),
            tool_call_count: count(turn.tool_calls.len()),
            stop_reason: turn.stop_reason.as_deref(),
            error_kind: error.map(|error| error.kind.as_str()),
            error_message: error.map(|error| error.message.as_str()),
            error_retryable: error.map(|error| error.retryable),
            error_code: error.and_then(|error| error.code.as_deref()),
            attempts_json: Some(&attempts),
        },
    };
    let doing = format_args!("write turn `{}`", turn.id);
    let number = turn_insert::insert(connection, &row, parent.map(|parent| parent.n), doing)?;
    if let Some(metadata) = &turn.metadata {
        metadata_rows::add_to_turn(connection, number, metadata.as_str())?;
    }
    Ok(number)
}
