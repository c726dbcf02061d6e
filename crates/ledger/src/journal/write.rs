//! The statements that write a turn, a message and a tool call, whichever commit point they belong to.
//!
//! It must never decide whether a row may be written: `commit` and `open_turns` do.

use std::sync::LazyLock;

use rusqlite::{Connection, params_from_iter};
use serde_json::value::RawValue;

use crate::rows::message_columns::MessageColumns;
use crate::rows::tool_call_rows::ToolCallColumns;
use crate::rows::turn_columns::{TurnColumns, TurnEndColumns};
use crate::rows::turn_parents::Parent;
use crate::rows::{blobs, message_codec};
use crate::sqlite::checksum::{insert_all, set, set_all};
use crate::sqlite::columns::values;
use crate::sqlite::error::Stored;
use crate::sqlite::fields::Column;
use crate::sqlite::sql;
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
            outcome: Some(RowOutcome::of(turn)),
        }
    }
}

impl<'a> RowOutcome<'a> {
    fn of(turn: &'a TurnEnd) -> Self {
        Self {
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
        }
    }
}

/// What is done about a message or a call that is stored already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// It is an error.
    Refuse,
    /// An earlier step has written it: a message is left as it is, a call gets its newer state.
    Upsert,
}

static ADD_TURN: LazyLock<String> = LazyLock::new(|| insert_all::<TurnColumns<'_>>("turns"));
static END_TURN: LazyLock<String> = LazyLock::new(|| {
    let change = set_all::<TurnEndColumns<'_>>();
    format!("UPDATE turns SET {change} WHERE id = ?1 AND status = 'streaming'")
});

/// Writes the row of a turn.
pub(crate) fn insert_turn(
    connection: &Connection,
    row: &Row<'_>,
    parent: Option<&Parent>,
) -> Stored<()> {
    let Row { header, outcome, .. } = row;
    let (tools, queries) = (json(&row.tools_available), json(&row.query_message_ids));
    let attempts = json(&outcome.as_ref().map_or(&[][..], |outcome| outcome.attempts));
    let columns = TurnColumns {
        id: row.id,
        parent_turn_id: row.parent_turn_id,
        turn_type: match row.turn_type {
            TurnType::Normal => "normal",
            TurnType::Compaction => "compaction",
        },
        depth: parent.map_or(0, |parent| parent.depth + 1),
        session_label: &header.session_label,
        run_id: &header.run_id,
        started_at: header.started_at,
        role: header.role.as_str(),
        toolset_name: Some(&header.toolset_name),
        tools_available: Some(&tools),
        permissions_granted: Some(row.permissions_granted),
        permissions_used: None,
        source_event_id: header.source_event_id.as_deref(),
        workspace_path: Some(&header.workspace_path),
        end: end_columns(row, parent, (&queries, &attempts)),
    };
    sql::insert(connection, &ADD_TURN, &columns, format_args!("write turn `{}`", row.id))
}

/// Writes the end of a turn that was opened. False where the turn is not open.
pub(crate) fn end_turn(
    connection: &Connection,
    turn: &TurnEnd,
    parent: Option<&Parent>,
) -> Stored<bool> {
    let row = Row::ended(turn, None);
    let (queries, attempts) = (json(&turn.query_message_ids), json(&turn.attempts));
    let end = end_columns(&row, parent, (&queries, &attempts));
    let values = std::iter::once(row.id.bind()).chain(values(&end));
    let doing = format_args!("finish turn `{}`", row.id);
    Ok(sql::exec(connection, &END_TURN, params_from_iter(values), doing)? == 1)
}

fn end_columns<'a>(
    row: &Row<'a>,
    parent: Option<&Parent>,
    (query_message_ids, attempts): (&'a str, &'a str),
) -> TurnEndColumns<'a> {
    let outcome = row.outcome.as_ref();
    let usage = outcome.map(|it| it.usage).unwrap_or_default();
    let error = outcome.and_then(|it| it.error);
    let above = parent.map_or(0, |parent| parent.thread_tokens);
    TurnEndColumns {
        status: outcome.map_or(TurnStatus::Streaming, |it| it.status).as_str(),
        completed_at: outcome.map(|it| it.completed_at),
        thread_tokens: above.saturating_add(integer(usage.total_tokens)),
        model: Some(row.model),
        provider: Some(row.provider),
        usage,
        usage_estimated: outcome.is_some_and(|it| it.usage_estimated),
        context_tokens: outcome.and_then(|it| it.context_tokens).map(integer),
        cost: outcome.and_then(|it| it.cost),
        query_message_ids: Some(query_message_ids),
        response_message_id: outcome.and_then(|it| it.response_message_id),
        tool_call_count: outcome.map_or(0, |it| count(it.tool_call_count)),
        stop_reason: outcome.map(|it| it.stop_reason.as_str()),
        error_kind: error.map(|error| error_kind(error.kind)),
        error_message: error.map(|error| error.message.as_str()),
        error_retryable: error.map(|error| error.retryable),
        error_code: error.and_then(|error| error.detail.code.as_deref()),
        attempts_json: Some(attempts),
    }
}

static ADD_MESSAGE: LazyLock<String> =
    LazyLock::new(|| insert_all::<MessageColumns<'_>>("messages"));
static UPSERT_MESSAGE: LazyLock<String> =
    LazyLock::new(|| format!("{} ON CONFLICT (turn_id, id) DO NOTHING", *ADD_MESSAGE));

static ADD_CALL: LazyLock<String> =
    LazyLock::new(|| insert_all::<ToolCallColumns<'_>>("tool_calls"));
static UPSERT_CALL: LazyLock<String> = LazyLock::new(|| {
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
    let encoded = message_codec::encode(message)?;
    let from = message.provenance.as_ref();
    let provenance = [
        from.map(|from| from.provider.as_str()),
        from.map(|from| from.api.as_str()),
        from.map(|from| from.model.as_str()),
        from.and_then(|from| from.response_id.as_deref()),
        message.provider_stop_reason.as_deref(),
    ];
    let [provider, api, model, response_id, stop_reason] = provenance;
    let role = message.role.as_str();
    let values = blobs::of_message(message, encoded.lend());
    let ([content, thinking, blocks_json], blobs_json) = blobs::take_apart(connection, values)?;
    let columns = MessageColumns {
        id: &message.id,
        turn_id,
        role,
        sequence: message.sequence,
        created_at: message.created_at,
        tool_call_id: encoded.tool_call_id.as_deref(),
        is_error: encoded.is_error,
        provider,
        api,
        model,
        response_id,
        stop_reason,
        checksum: message_codec::checksum(role, encoded.lend(), provenance),
        content: content.as_deref().unwrap_or_default(),
        thinking: thinking.as_deref(),
        blocks_json: blocks_json.as_deref(),
        blobs_json: blobs_json.as_deref(),
    };
    let statement = match on_conflict {
        OnConflict::Refuse => &ADD_MESSAGE,
        OnConflict::Upsert => &UPSERT_MESSAGE,
    };
    sql::insert(connection, statement, &columns, format_args!("write message `{}`", message.id))
}

/// Writes a call, or, of a turn that was opened, what has changed of it. `replay` is what its tool declares, and
/// `arguments_hash` the hash of its arguments; without them the stored values stay.
pub(crate) fn write_tool_call(
    connection: &Connection,
    turn_id: &str,
    (call, replay, arguments_hash): (&ToolCallRecord, Option<ReplayClass>, Option<&str>),
    on_conflict: OnConflict,
    clock: &Clock,
) -> Stored<()> {
    let new_id = call.call_id.is_empty().then(|| clock.new_id());
    let result = call.result.as_deref().map(RawValue::get);
    let values = blobs::of_tool_call(call.params.get(), result);
    let ([params_json, result_json], blobs_json) = blobs::take_apart(connection, values)?;
    let columns = ToolCallColumns {
        id: new_id.as_deref().unwrap_or(&call.call_id),
        provider_call_id: &call.id,
        turn_id,
        message_id: Some(call.message_id.as_str()).filter(|id| !id.is_empty()),
        tool_name: &call.tool_name,
        status: call.status.as_str(),
        spawned_session_label: call.spawned_session_label.as_deref(),
        started_at: call.started_at,
        completed_at: call.completed_at,
        sequence: call.sequence,
        error: call.error.as_deref(),
        params_json: params_json.as_deref(),
        result_json: result_json.as_deref(),
        replay: replay.map(ReplayClass::as_str),
        arguments_hash,
        blobs_json: blobs_json.as_deref(),
    };
    let statement = match on_conflict {
        OnConflict::Refuse => &ADD_CALL,
        OnConflict::Upsert => &UPSERT_CALL,
    };
    sql::insert(connection, statement, &columns, format_args!("write tool call `{}`", call.id))
}

/// SQLite's integers are signed. A count beyond them is a provider's mistake, and is stored as the largest there is.
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
