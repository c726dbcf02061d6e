//! The statements that write a turn, a message and a tool call, whichever commit point they belong to.
//!
//! It must never decide whether a row may be written: that is `commit`'s and `journal`'s.

use std::sync::LazyLock;

use rusqlite::{Connection, params};

use crate::rows::turn_parents::Parent;
use crate::rows::{blobs, message_codec};
use crate::sqlite::checksum::{columns, insert, numbered, set};
use crate::sqlite::error::{Stored, sqlite};
use base::clock::Clock;
use model::{
    AgentErrorKind, Attempt, Message, ReplayClass, StopReason, TokenUsage, ToolCallRecord,
    TurnCommit, TurnStatus, TurnType,
};

/// A row of `turns`; the compaction's and the run's differ only here.
pub(crate) struct Row<'a> {
    pub(crate) id: &'a str,
    pub(crate) parent_turn_id: Option<&'a str>,
    pub(crate) turn_type: TurnType,
    pub(crate) status: TurnStatus,
    pub(crate) stop_reason: Option<StopReason>,
    pub(crate) model: &'a str,
    pub(crate) provider: &'a str,
    pub(crate) usage: TokenUsage,
    pub(crate) usage_estimated: bool,
    pub(crate) cost: Option<f64>,
    pub(crate) attempts: &'a [Attempt],
    pub(crate) completed_at: Option<i64>,
}

impl<'a> Row<'a> {
    /// The row of a run's turn.
    pub(crate) fn of(turn: &'a TurnCommit, parent_turn_id: Option<&'a str>) -> Self {
        let ended = turn.status != TurnStatus::Streaming;
        Self {
            id: &turn.turn_id,
            parent_turn_id,
            turn_type: TurnType::Normal,
            status: turn.status,
            stop_reason: ended.then_some(turn.stop_reason),
            model: &turn.model,
            provider: &turn.provider,
            usage: turn.usage,
            usage_estimated: turn.usage_estimated,
            cost: turn.cost,
            attempts: &turn.attempts,
            completed_at: ended.then_some(turn.completed_at),
        }
    }
}

/// What a message that is there already is: a mistake, or what an earlier step has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnConflict {
    Refuse,
    KeepStored,
}

pub(crate) fn insert_turn(
    connection: &Connection,
    turn: &TurnCommit,
    row: &Row<'_>,
    parent: Option<&Parent>,
) -> Stored<()> {
    let normal = match row.turn_type {
        TurnType::Normal => Some(turn),
        TurnType::Compaction => None,
    };
    let error = normal.and_then(|turn| turn.error.as_ref());
    let total = integer(row.usage.total_tokens);
    connection
        .prepare_cached(&ADD_TURN)
        .and_then(|mut statement| {
            statement.execute(params![
                row.id,
                row.parent_turn_id,
                match row.turn_type {
                    TurnType::Normal => "normal",
                    TurnType::Compaction => "compaction",
                },
                row.status.as_str(),
                parent.map_or(0, |parent| parent.depth + 1),
                parent.map_or(0, |parent| parent.thread_tokens).saturating_add(total),
                turn.session_label,
                turn.run_id,
                turn.started_at,
                row.completed_at,
                row.model,
                row.provider,
                turn.role.as_str(),
                turn.toolset_name,
                json(&normal.map_or(&[][..], |turn| &turn.tools_available)),
                normal.map_or("[]", |turn| &turn.permissions_granted),
                integer(row.usage.input_tokens),
                integer(row.usage.output_tokens),
                integer(row.usage.cached_input_tokens),
                integer(row.usage.cache_write_tokens),
                integer(row.usage.reasoning_tokens),
                total,
                row.usage_estimated,
                normal.and_then(|turn| turn.context_tokens).map(integer),
                row.cost,
                json(&normal.map_or(&[][..], |turn| &turn.query_message_ids)),
                normal.and_then(|turn| turn.response_message_id.as_deref()),
                normal.map_or(0, |turn| count(turn.tool_call_count)),
                turn.source_event_id,
                turn.workspace_path,
                row.stop_reason.map(StopReason::as_str),
                error.map(|error| error_kind(error.kind)),
                error.map(|error| error.message.as_str()),
                error.map(|error| error.retryable),
                json(&row.attempts),
                error.and_then(|error| error.detail.code.as_deref()),
            ])
        })
        .map(drop)
        .map_err(|error| sqlite(&format!("write turn `{}`", row.id), &error))
}

static ADD_TURN: LazyLock<String> = LazyLock::new(|| {
    let row = numbered(
        "id, parent_turn_id, turn_type, status, depth, thread_tokens, session_label, run_id, started_at, completed_at, \
         model, provider, role, toolset_name, tools_available, permissions_granted, input_tokens, output_tokens, \
         cached_input_tokens, cache_write_tokens, reasoning_tokens, total_tokens, usage_estimated, context_tokens, cost, \
         query_message_ids, response_message_id, tool_call_count, source_event_id, workspace_path, stop_reason, \
         error_kind, error_message, error_retryable, attempts_json, error_code",
    );
    insert("turns", &row)
});

/// The columns that the checksum of a message's row does not cover stand in `checksum`, which it covers.
static ADD_MESSAGE: LazyLock<String> = LazyLock::new(|| {
    let sealed = columns("messages");
    let values = "?1, ?2, NULL, ?4, ?5, ?13, NULL, NULL, ?17";
    format!(
        "INSERT INTO messages (id, turn_id, role, sequence, created_at, tool_call_id, is_error, provider, api, model,
           response_id, stop_reason, checksum, content, thinking, blocks_json, blobs_json, row_checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
           checksum_of('{sealed}', {values}))"
    )
});
static KEEP_MESSAGE: LazyLock<String> =
    LazyLock::new(|| format!("{} ON CONFLICT (turn_id, id) DO NOTHING", *ADD_MESSAGE));

static ADD_CALL: LazyLock<String> = LazyLock::new(|| {
    let row = numbered(
        "id, provider_call_id, turn_id, message_id, tool_name, status, spawned_session_label, started_at, completed_at, \
         sequence, error, params_json, result_json, replay, arguments_hash, blobs_json",
    );
    insert("tool_calls", &row)
});
static KEEP_CALL: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[
        ("status", "excluded.status"),
        ("spawned_session_label", "excluded.spawned_session_label"),
        ("started_at", "excluded.started_at"),
        ("completed_at", "excluded.completed_at"),
        ("error", "excluded.error"),
        ("params_json", "excluded.params_json"),
        ("result_json", "excluded.result_json"),
        ("blobs_json", "excluded.blobs_json"),
        ("replay", "coalesce(excluded.replay, replay)"),
        ("arguments_hash", "coalesce(excluded.arguments_hash, arguments_hash)"),
    ]);
    let add = &*ADD_CALL;
    format!("{add} ON CONFLICT (id) DO UPDATE SET {change} WHERE turn_id = excluded.turn_id")
});

pub(crate) fn insert_message(
    connection: &Connection,
    turn_id: &str,
    message: &Message,
    on_conflict: OnConflict,
) -> Stored<()> {
    let columns = message_codec::encode(message)?;
    let from = message.provenance.as_ref();
    let provenance = [
        from.map(|from| from.provider.as_str()),
        from.map(|from| from.api.as_str()),
        from.map(|from| from.model.as_str()),
        from.and_then(|from| from.response_id.as_deref()),
        message.provider_stop_reason.as_deref(),
    ];
    let [provider, api, model, response_id, stop_reason] = provenance;
    let values = blobs::of_message(message, columns.lend());
    let ([content, thinking, blocks_json], blobs_json) = blobs::take_apart(connection, values)?;
    connection
        .prepare_cached(match on_conflict {
            OnConflict::Refuse => &ADD_MESSAGE,
            OnConflict::KeepStored => &KEEP_MESSAGE,
        })
        .and_then(|mut statement| {
            statement.execute(params![
                message.id,
                turn_id,
                message.role.as_str(),
                message.sequence,
                message.created_at,
                columns.tool_call_id,
                columns.is_error,
                provider,
                api,
                model,
                response_id,
                stop_reason,
                message_codec::checksum(message.role.as_str(), columns.lend(), provenance),
                content,
                thinking,
                blocks_json,
                blobs_json,
            ])
        })
        .map(drop)
        .map_err(|error| sqlite(&format!("write message `{}`", message.id), &error))
}

/// Writes a call, or, of a turn that was opened, what has changed of it. With what its tool declares and the hash of its
/// arguments, where a step says them: what is written of them stays otherwise.
pub(crate) fn write_tool_call(
    connection: &Connection,
    turn_id: &str,
    (call, replay, arguments_hash): (&ToolCallRecord, Option<ReplayClass>, Option<&str>),
    on_conflict: OnConflict,
    clock: &Clock,
) -> Stored<()> {
    let made = call.call_id.is_empty().then(|| clock.new_id());
    let message_id = Some(call.message_id.as_str()).filter(|id| !id.is_empty());
    let result = call.result.as_deref().map(serde_json::value::RawValue::get);
    let values = blobs::of_tool_call(call.params.get(), result);
    let ([params_json, result_json], blobs_json) = blobs::take_apart(connection, values)?;
    connection
        .prepare_cached(match on_conflict {
            OnConflict::Refuse => &ADD_CALL,
            OnConflict::KeepStored => &KEEP_CALL,
        })
        .and_then(|mut statement| {
            statement.execute(params![
                made.as_deref().unwrap_or(&call.call_id),
                call.id,
                turn_id,
                message_id,
                call.tool_name,
                call.status.as_str(),
                call.spawned_session_label,
                call.started_at,
                call.completed_at,
                call.sequence,
                call.error,
                params_json,
                result_json,
                replay.map(ReplayClass::as_str),
                arguments_hash,
                blobs_json,
            ])
        })
        .map(drop)
        .map_err(|error| sqlite(&format!("write tool call `{}`", call.id), &error))
}

/// SQLite's integers are signed; a count beyond them is a provider's mistake, and the largest there is.
pub(crate) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn count(items: usize) -> i64 {
    i64::try_from(items).unwrap_or(i64::MAX)
}

pub(crate) fn json(value: &impl serde::Serialize) -> String {
    // Lists of strings and of plain structs: serde_json has no error for them.
    serde_json::to_string(value).unwrap_or_else(|_| "[]".to_owned())
}

pub(crate) fn error_kind(kind: AgentErrorKind) -> &'static str {
    match kind {
        AgentErrorKind::ContextOverflow => "context_overflow",
        AgentErrorKind::AuthFailure => "auth_failure",
        AgentErrorKind::RateLimit => "rate_limit",
        AgentErrorKind::ModelError => "model_error",
        AgentErrorKind::Timeout => "timeout",
        AgentErrorKind::CompactionFailure => "compaction_failure",
        AgentErrorKind::Unknown => "unknown",
    }
}
