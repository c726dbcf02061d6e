//! The row of a turn as a file tells it, in one statement.
//!
//! What the schema's rules refuse is an error of that turn. It must never take a depth or a sum from the file.

use std::sync::LazyLock;

use rusqlite::{Connection, params};

use super::record::TurnRecord;
use crate::journal::write::{count, integer, json};
use crate::rows::turn_parents::Parent;
use crate::sqlite::checksum::{self, columns, numbered, set};
use crate::sqlite::error::{Stored, sqlite};

static NOTE: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[("metadata_json", "?3")]);
    format!("UPDATE messages SET {change} WHERE turn_id = ?1 AND id = ?2")
});
/// Every column that the checksum covers, in its order.
static ADD: LazyLock<String> =
    LazyLock::new(|| checksum::insert("turns", &numbered(columns("turns"))));

/// Keeps what a message's origin said beyond it.
pub(super) fn note(
    connection: &Connection,
    turn: &str,
    message: &str,
    metadata: &str,
) -> Stored<()> {
    connection
        .prepare_cached(&NOTE)
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
        .prepare_cached(&ADD)
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
