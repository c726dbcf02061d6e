//! Sessions that begin at a turn of another one: at its end, or at one of its tool calls.
//!
//! At a call, the new session gets a copy of the turn up to the call. It must never write to the forked turn, and never
//! leave a call without its result.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::rows::metadata_rows;
use crate::rows::narrow::message_insert::NarrowMessage;
use crate::rows::narrow::turn_insert;
use crate::rows::turn_columns::{TurnColumns, TurnEndColumns};
use crate::rows::turn_parents::{parent_of, unknown_turn};
use crate::sessions::{aliases, moved, pointers};
use crate::sqlite::columns::list;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use base::clock::Clock;
use model::{StorageError, StorageErrorKind, TokenUsage};

/// A new session that begins at an existing turn, with the persona of that turn. With `call`, it begins after the results of
/// that call and of the other calls of the same answer.
///
/// # Errors
/// `unknown_turn`, also for one that still runs; `unknown_tool_call`; `storage_constraint` when the label is taken; `ledger_moved`.
pub(crate) fn fork(
    connection: &Connection,
    turn_id: &str,
    label: &str,
    call: Option<&str>,
    clock: &Clock,
) -> Stored<()> {
    moved::refuse(connection)?;
    parent_of(connection, turn_id)?;
    if pointers::is_taken(connection, label)? || aliases::is_alias(connection, label)? {
        return Err(StorageError::new(
            StorageErrorKind::Constraint,
            format!("session `{label}` exists already; pass another label, or none"),
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

pub(crate) const CALLED_AT: &str =
    "SELECT c.message FROM call_rows c CROSS JOIN turns t ON t.n = c.key >> 20
     WHERE c.id = ?1 AND t.id = ?2 AND c.message IS NOT NULL";
/// The results directly after the message of the call end before the first message that is no result.
pub(crate) const RESULTS_END: &str =
    "SELECT max(sequence) FROM messages WHERE turn_id = ?1 AND sequence >= ?2 AND sequence < coalesce(
       (SELECT min(sequence) FROM messages WHERE turn_id = ?1 AND sequence > ?2 AND role <> 'tool'), 9223372036854775807)";

/// The sequence of the last result of the answer that made the call.
fn group_end(connection: &Connection, turn_id: &str, call: &str) -> Stored<i64> {
    let doing = format_args!("read tool call `{call}`");
    let called: Option<i64> = sql::optional(connection, CALLED_AT, (call, turn_id), doing)?;
    let called = called.ok_or_else(|| {
        StorageError::new(
            StorageErrorKind::UnknownToolCall,
            format!("turn `{turn_id}` has no tool call `{call}`; pass the `callId` of one"),
        )
        .at("options.atToolCall")
    })?;
    sql::one(connection, RESULTS_END, (turn_id, called), doing)
}

/// A copy of the turn `turn_id` up to the message `last`.
struct Copied<'a> {
    turn_id: &'a str,
    last: i64,
    id: &'a str,
    label: &'a str,
    now: i64,
}

fn copy(connection: &Connection, copied: &Copied<'_>, clock: &Clock) -> Stored<()> {
    let Copied { turn_id, last, id, .. } = *copied;
    let doing = format_args!("fork turn `{turn_id}` at a tool call");
    let calls: Vec<String> = sql::all(connection, CALLS_UP_TO, (turn_id, last), doing)?;
    copy_turn(connection, copied, calls.len())?;
    let metadata: Option<(i64, String)> =
        sql::optional(connection, METADATA, (turn_id, id), doing)?;
    if let Some((number, metadata)) = metadata {
        metadata_rows::add_to_turn(connection, number, &metadata)?;
    }
    sql::exec(connection, &COPY_MESSAGES, (turn_id, id, last), doing)?;
    for call in calls {
        // A call's id is its tool's idempotency key, so the copy gets another.
        sql::exec(connection, &COPY_CALL, (call, clock.new_id(), id), doing)?;
    }
    Ok(())
}

/// Copies the turn's own row. The copy has no usage and no cost: they count for the original.
fn copy_turn(connection: &Connection, copied: &Copied<'_>, calls: usize) -> Stored<()> {
    let Copied { turn_id, last, id, label, now } = *copied;
    let doing = format_args!("fork turn `{turn_id}` at a tool call");
    let messages: Vec<(String, String)> =
        sql::all(connection, MESSAGES_UP_TO, (turn_id, last), doing)?;
    let of_role = |role: &'static str| {
        messages.iter().filter(move |(_, of)| of == role).map(|(id, _)| id.as_str())
    };
    let queries = serde_json::json!(of_role("user").collect::<Vec<_>>()).to_string();
    let run_id = format!("fork-{turn_id}");
    let written = sql::first(connection, &TURN, (turn_id,), doing, |fields| {
        let turn: TurnColumns<'_> = fields.next()?;
        let above = turn.parent_turn_id.map(|id| parent_of(connection, id)).transpose()?;
        let end = TurnEndColumns {
            status: "completed",
            completed_at: Some(now),
            thread_tokens: above.as_ref().map_or(0, |above| above.thread_tokens),
            usage: TokenUsage::default(),
            usage_estimated: false,
            context_tokens: None,
            cost: Some(0.0),
            query_message_ids: Some(&queries),
            response_message_id: of_role("assistant").next_back(),
            tool_call_count: i64::try_from(calls).unwrap_or(i64::MAX),
            stop_reason: Some("tool_use"),
            error_kind: None,
            error_message: None,
            error_retryable: None,
            error_code: None,
            attempts_json: Some("[]"),
            ..turn.end
        };
        let turn = TurnColumns {
            id,
            turn_type: "normal",
            session_label: label,
            run_id: &run_id,
            started_at: now,
            source_event_id: None,
            end,
            ..turn
        };
        turn_insert::insert(connection, &turn, above.map(|above| above.n), doing)
    })?;
    written.map(drop).ok_or_else(|| unknown_turn(turn_id))
}

/// The metadata of the turn `?1`, with the number of its copy `?2`.
const METADATA: &str = "SELECT (SELECT n FROM turns WHERE id = ?2), metadata FROM turn_metadata
     WHERE turn = (SELECT n FROM turns WHERE id = ?1)";
const MESSAGES_UP_TO: &str =
    "SELECT id, role FROM messages WHERE turn_id = ?1 AND sequence <= ?2 ORDER BY sequence";
const CALLS_UP_TO: &str =
    "SELECT c.id FROM turns t CROSS JOIN call_rows c ON c.key BETWEEN t.n << 20 AND t.n << 20 | 1048575
     WHERE t.id = ?1 AND c.message <= ?2 ORDER BY c.key";

static TURN: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM turns WHERE id = ?1", list::<TurnColumns<'_>>()));

static COPY_MESSAGES: LazyLock<String> = LazyLock::new(|| {
    let columns = list::<NarrowMessage<'_>>() + ", source, context_json, metadata_json";
    let key = key_in("?2", "key");
    let value = |column| if column == "key" { key.as_str() } else { column };
    let values: Vec<&str> = columns.split(", ").map(value).collect();
    let values = values.join(", ");
    format!(
        "INSERT INTO message_rows ({columns}, row_checksum)
         SELECT {values}, checksum_after(row_checksum, 'key', key, {key}) FROM message_rows
         WHERE key BETWEEN (SELECT n FROM turns WHERE id = ?1) << 20 AND (SELECT n FROM turns WHERE id = ?1) << 20 | ?3
         ORDER BY key"
    )
});
/// The copy shares no value with a message, because not all messages are copied. The copy of a damaged row is damaged.
static COPY_CALL: LazyLock<String> = LazyLock::new(|| {
    let key = key_in("?3", "c.key");
    let same = "provider_call_id, message, tool_name, tool_number, status, spawned_session_label, started_at, completed_at, \
                error, replay, arguments_hash, blobs_json";
    let of_row: Vec<String> = same.split(", ").map(|name| format!("c.{name}")).collect();
    let of_row = of_row.join(", ");
    format!(
        "INSERT INTO call_rows (id, key, {same}, params_json, result_json, row_checksum)
         SELECT ?2, {key}, {of_row}, v.params_json, v.result_json,
           checksum_after(c.row_checksum, 'id, key', c.id, c.key, ?2, {key})
         FROM call_rows c CROSS JOIN call_values v ON v.key = c.key WHERE c.id = ?1"
    )
});

/// The key of the copy of the row with `key` in the turn with that id.
fn key_in(turn_id: &str, key: &str) -> String {
    format!("((SELECT n FROM turns WHERE id = {turn_id}) << 20 | ({key} & 1048575))")
}
