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
    AgentError, AgentErrorKind, Attempt, Message, ReplayClass, StopReason, TokenUsage,
    ToolCallRecord, TurnEnd, TurnHeader, TurnOpening, TurnStatus, TurnType,
};

/// A row of `turns`.
pub(crate) struct Row<'a> {
    pub(crate) id: &'a str,
    pub(crate) parent_turn_id: Option<&'a str>,
    pub(crate) turn_type: TurnType,
    pub(crate) header: &'a TurnHeader,
    pub(crate) provider: &'a str,
    pub(crate) model: &'a str,
    pub(crate) tools_available: &'a [String],
    pub(crate) permissions_granted: &'a str,
    pub(crate) query_message_ids: &'a [String],
    /// `None` while the turn runs.
    pub(crate) outcome: Option<RowOutcome<'a>>,
}

/// What a row has of a turn that has ended.
pub(crate) struct RowOutcome<'a> {
    pub(crate) status: TurnStatus,
    pub(crate) stop_reason: StopReason,
    pub(crate) completed_at: i64,
    pub(crate) usage: TokenUsage,
    pub(crate) usage_estimated: bool,
    pub(crate) context_tokens: Option<u64>,
    pub(crate) cost: Option<f64>,
    pub(crate) response_message_id: Option<&'a str>,
    pub(crate) tool_call_count: usize,
    pub(crate) error: Option<&'a AgentError>,
    pub(crate) attempts: &'a [Attempt],
}

impl<'a> Row<'a> {
    /// The row of a turn that begins, with the user's messages.
    pub(crate) fn opening(turn: &'a TurnOpening, query_message_ids: &'a [String]) -> Self {
        Self {
            id: &turn.turn_id,
            parent_turn_id: turn.header.parent_turn_id.as_deref(),
            turn_type: TurnType::Normal,
            header: &turn.header,
            provider: &turn.settings.provider,
            model: &turn.settings.model,
            tools_available: &turn.settings.tools_available,
            permissions_granted: &turn.settings.permissions_granted,
            query_message_ids,
            outcome: None,
        }
    }

    /// The row of a turn that was not opened before its end.
    pub(crate) fn ended(turn: &'a TurnEnd, parent_turn_id: Option<&'a str>) -> Self {
        Self {
            id: &turn.turn_id,
            parent_turn_id,
            turn_type: TurnType::Normal,
            header: &turn.header,
            provider: &turn.settings.provider,
            model: &turn.settings.model,
            tools_available: &turn.settings.tools_available,
            permissions_granted: &turn.settings.permissions_granted,
            query_message_ids: &turn.query_message_ids,
            outcome: Some(RowOutcome {
                status: turn.status,
                stop_reason: turn.stop_reason,
                completed_at: turn.completed_at,
                usage: turn.usage,
                usage_estimated: turn.usage_estimated,
                context_tokens: turn.context_tokens,
                cost: turn.cost,
                response_message_id: turn.response_message_id.as_deref(),
                tool_call_count: turn.tool_call_count,
                error: turn.error.as_ref(),
                attempts: &turn.attempts,
            }),
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
    row: &Row<'_>,
    parent: Option<&Parent>,
) -> Stored<()> {
    let (header, outcome) = (row.header, row.outcome.as_ref());
    let usage = outcome.map(|it| it.usage).unwrap_or_default();
    let total = integer(usage.total_tokens);
    let error = outcome.and_then(|it| it.error);
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
                outcome.map_or(TurnStatus::Streaming, |it| it.status).as_str(),
                parent.map_or(0, |parent| parent.depth + 1),
                parent.map_or(0, |parent| parent.thread_tokens).saturating_add(total),
                header.session_label,
                header.run_id,
                header.started_at,
                outcome.map(|it| it.completed_at),
                row.model,
                row.provider,
                header.role.as_str(),
                header.toolset_name,
                json(&row.tools_available),
                row.permissions_granted,
                integer(usage.input_tokens),
                integer(usage.output_tokens),
                integer(usage.cached_input_tokens),
                integer(usage.cache_write_tokens),
                integer(usage.reasoning_tokens),
                total,
                outcome.is_some_and(|it| it.usage_estimated),
                outcome.and_then(|it| it.context_tokens).map(integer),
                outcome.and_then(|it| it.cost),
                json(&row.query_message_ids),
                outcome.and_then(|it| it.response_message_id),
                outcome.map_or(0, |it| count(it.tool_call_count)),
                header.source_event_id,
                header.workspace_path,
                outcome.map(|it| it.stop_reason.as_str()),
                error.map(|error| error_kind(error.kind)),
                error.map(|error| error.message.as_str()),
                error.map(|error| error.retryable),
                json(&outcome.map_or(&[][..], |it| it.attempts)),
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
