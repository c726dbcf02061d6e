//! Sessions that begin at a turn of another one: at its end, or at one of its tool calls.
//!
//! At a call, the new session gets a turn of its own that says again what was said up to there. It must never write to the
//! turn that is forked, and never leave a call without the result it had.

use rusqlite::{Connection, OptionalExtension, params};

use crate::rows::turn_parents::{parent_of, unknown_turn};
use crate::sessions::{aliases, pointers};
use crate::sqlite::checksum;
use crate::sqlite::error::{Stored, sqlite};
use base::clock::Clock;
use model::{StorageError, StorageErrorKind};

/// A new session that begins at any turn there is, with the persona of that turn. With `call`, it begins where that call
/// and those of the same answer had their results.
///
/// # Errors
/// `unknown_turn`, also for one that still runs; `unknown_tool_call`; `storage_constraint` when the label is taken.
pub(crate) fn fork(
    connection: &Connection,
    turn_id: &str,
    label: &str,
    call: Option<&str>,
    clock: &Clock,
) -> Stored<()> {
    parent_of(connection, turn_id)?;
    if pointers::head(connection, label)?.is_some() || aliases::is_alias(connection, label)? {
        return Err(StorageError::new(
            StorageErrorKind::Constraint,
            format!("session `{label}` is there already; pass another label, or none"),
        )
        .at("label"));
    }
    let now = clock.now_ms();
    pointers::create(connection, label, Some(turn_id), now, false)?;
    let Some(call) = call else {
        return pointers::move_pointer(connection, label, turn_id, now);
    };
    let id = clock.new_id();
    let last = group_end(connection, turn_id, call)?;
    copy(connection, &Copied { turn_id, last, id: &id, label, now }, clock)?;
    pointers::move_pointer(connection, label, &id, now)
}

pub(crate) const ASKED_AT: &str =
    "SELECT m.sequence FROM tool_calls c CROSS JOIN messages m ON m.turn_id = c.turn_id AND m.id = c.message_id
     WHERE c.id = ?1 AND c.turn_id = ?2";
/// The results directly after the message that asked end before the first message that is none.
pub(crate) const RESULTS_END: &str =
    "SELECT max(sequence) FROM messages WHERE turn_id = ?1 AND sequence >= ?2 AND sequence < coalesce(
       (SELECT min(sequence) FROM messages WHERE turn_id = ?1 AND sequence > ?2 AND role <> 'tool'), 9223372036854775807)";

/// The sequence of the last result of the answer that made the call.
fn group_end(connection: &Connection, turn_id: &str, call: &str) -> Stored<i64> {
    let failed = |error| sqlite(&format!("read tool call `{call}`"), &error);
    let asked: Option<i64> = connection
        .prepare_cached(ASKED_AT)
        .and_then(|mut statement| statement.query_row((call, turn_id), |row| row.get(0)).optional())
        .map_err(failed)?;
    let asked = asked.ok_or_else(|| {
        StorageError::new(
            StorageErrorKind::UnknownToolCall,
            format!("turn `{turn_id}` has no tool call `{call}`; pass the `callId` of one"),
        )
        .at("options.atToolCall")
    })?;
    connection
        .prepare_cached(RESULTS_END)
        .and_then(|mut statement| statement.query_row((turn_id, asked), |row| row.get(0)))
        .map_err(failed)
}

/// A turn that says again what `turn_id` said up to the message `last`.
struct Copied<'a> {
    turn_id: &'a str,
    last: i64,
    id: &'a str,
    label: &'a str,
    now: i64,
}

/// It used nothing and cost nothing: that was the turn it is from.
fn copy(connection: &Connection, copied: &Copied<'_>, clock: &Clock) -> Stored<()> {
    let failed = |error| sqlite(&format!("fork turn `{}` at a tool call", copied.turn_id), &error);
    let Copied { turn_id, last, id, label, now } = *copied;
    let written = connection
        .prepare_cached(
            "INSERT INTO turns (id, parent_turn_id, turn_type, status, depth, thread_tokens, session_label, run_id,
               started_at, completed_at, model, provider, role, toolset_name, tools_available, permissions_granted,
               permissions_used, cost, query_message_ids, response_message_id, tool_call_count, workspace_path,
               stop_reason, attempts_json)
             SELECT ?2, t.parent_turn_id, 'normal', 'completed', t.depth,
               coalesce((SELECT p.thread_tokens FROM turns p WHERE p.id = t.parent_turn_id), 0), ?4, 'fork-' || t.id,
               ?5, ?5, t.model, t.provider, t.role, t.toolset_name, t.tools_available, t.permissions_granted,
               t.permissions_used, 0.0,
               (SELECT json_group_array(id) FROM (SELECT id FROM messages
                  WHERE turn_id = ?1 AND sequence <= ?3 AND role = 'user' ORDER BY sequence)),
               (SELECT id FROM messages WHERE turn_id = ?1 AND sequence <= ?3 AND role = 'assistant'
                  ORDER BY sequence DESC LIMIT 1),
               (SELECT count(*) FROM tool_calls c JOIN messages m ON m.turn_id = c.turn_id AND m.id = c.message_id
                  WHERE c.turn_id = ?1 AND m.sequence <= ?3),
               t.workspace_path, 'tool_use', '[]'
             FROM turns t WHERE t.id = ?1",
        )
        .and_then(|mut statement| statement.execute(params![turn_id, id, last, label, now]))
        .map_err(failed)?;
    if written != 1 {
        return Err(unknown_turn(turn_id));
    }
    checksum::seal(connection, "turns", "id = ?1", (id,))?;
    connection
        .prepare_cached(
            "INSERT INTO messages (id, turn_id, role, source, sequence, created_at, tool_call_id, is_error, provider,
               api, model, response_id, stop_reason, checksum, context_json, metadata_json, content, thinking,
               blocks_json, blobs_json, row_checksum)
             SELECT id, ?2, role, source, sequence, created_at, tool_call_id, is_error, provider, api, model,
               response_id, stop_reason, checksum, context_json, metadata_json, content, thinking, blocks_json,
               blobs_json, checksum_after(row_checksum, 'turn_id', turn_id, ?2)
             FROM messages WHERE turn_id = ?1 AND sequence <= ?3 ORDER BY sequence",
        )
        .and_then(|mut statement| statement.execute((turn_id, id, last)))
        .map_err(failed)?;
    let calls = connection
        .prepare_cached(
            "SELECT c.id FROM tool_calls c JOIN messages m ON m.turn_id = c.turn_id AND m.id = c.message_id
             WHERE c.turn_id = ?1 AND m.sequence <= ?2 ORDER BY c.sequence",
        )
        .and_then(|mut statement| {
            statement
                .query_map((turn_id, last), |row| row.get::<_, String>(0))?
                .collect::<rusqlite::Result<Vec<_>>>()
        })
        .map_err(failed)?;
    for call in calls {
        // A call's id is its tool's idempotency key, and belongs to one call.
        connection
            .prepare_cached(
                "INSERT INTO tool_calls (id, provider_call_id, turn_id, message_id, tool_name, tool_number, status,
                   spawned_session_label, started_at, completed_at, sequence, error, params_json, result_json, replay,
                   arguments_hash, blobs_json, row_checksum)
                 SELECT ?2, provider_call_id, ?3, message_id, tool_name, tool_number, status, spawned_session_label,
                   started_at, completed_at, sequence, error, params_json, result_json, replay, arguments_hash,
                   blobs_json, checksum_after(row_checksum, 'id, turn_id', id, turn_id, ?2, ?3)
                 FROM tool_calls WHERE id = ?1",
            )
            .and_then(|mut statement| statement.execute((call, clock.new_id(), id)))
            .map_err(failed)?;
    }
    Ok(())
}
