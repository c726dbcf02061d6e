//! Sessions that begin at a turn of another one: at its end, or at one of its tool calls.
//!
//! At a call, the new session gets a copy of the turn up to the call. It must never write to the forked turn, and never
//! leave a call without its result.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::rows::message_columns::MessageColumns;
use crate::rows::tool_call_rows::ToolCallColumns;
use crate::rows::turn_columns::{TurnColumns, TurnEndColumns};
use crate::rows::turn_insert;
use crate::rows::turn_parents::{parent_of, unknown_turn};
use crate::sessions::{aliases, pointers};
use crate::sqlite::columns::list;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use base::clock::Clock;
use model::{StorageError, StorageErrorKind, TokenUsage};

/// A new session that begins at an existing turn, with the persona of that turn. With `call`, it begins after the results of
/// that call and of the other calls of the same answer.
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
    "SELECT m.key & 1048575 FROM call_rows c CROSS JOIN turns t ON t.n = c.key >> 20
       CROSS JOIN message_rows m ON m.key BETWEEN t.n << 20 AND t.n << 20 | 1048575 AND m.id = c.message_id
     WHERE c.id = ?1 AND t.id = ?2";
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

const MESSAGES_UP_TO: &str =
    "SELECT id, role FROM messages WHERE turn_id = ?1 AND sequence <= ?2 ORDER BY sequence";
const CALLS_UP_TO: &str =
    "SELECT c.id FROM tool_calls c JOIN messages m ON m.turn_id = c.turn_id AND m.id = c.message_id
     WHERE c.turn_id = ?1 AND m.sequence <= ?2 ORDER BY c.sequence";

static TURN: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM turns WHERE id = ?1", list::<TurnColumns<'_>>()));

static COPY_MESSAGES: LazyLock<String> = LazyLock::new(|| {
    let columns = list::<MessageColumns<'_>>() + ", source, context_json, metadata_json";
    let rows = "key BETWEEN (SELECT n FROM turns WHERE id = ?1) << 20 AND (SELECT n FROM turns WHERE id = ?1) << 20 | ?3
       ORDER BY key";
    copy_rows("message_rows", &columns, &[("key", &key_in("?2"))], rows)
});
static COPY_CALL: LazyLock<String> = LazyLock::new(|| {
    let columns = list::<ToolCallColumns<'_>>() + ", tool_number";
    copy_rows("call_rows", &columns, &[("id", "?2"), ("key", &key_in("?3"))], "id = ?1")
});

/// The key of a row's copy in the turn with that id.
fn key_in(turn_id: &str) -> String {
    format!("((SELECT n FROM turns WHERE id = {turn_id}) << 20 | (key & 1048575))")
}

/// Copies the rows of `table` that `rows` selects, with other values in the columns of `changed`. The copy of a damaged row
/// is damaged.
fn copy_rows(table: &str, columns: &str, changed: &[(&str, &str)], rows: &str) -> String {
    let value = |column| changed.iter().find(|(name, _)| *name == column).map_or(column, |it| it.1);
    let values: Vec<&str> = columns.split(", ").map(value).collect();
    let values = values.join(", ");
    let (names, new): (Vec<&str>, Vec<&str>) = changed.iter().copied().unzip();
    let (names, new) = (names.join(", "), new.join(", "));
    format!(
        "INSERT INTO {table} ({columns}, row_checksum)
         SELECT {values}, checksum_after(row_checksum, '{names}', {names}, {new}) FROM {table} WHERE {rows}"
    )
}
