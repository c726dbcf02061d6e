//! The statements that write a turn, a message and a tool call, for every commit point.
//!
//! It must never decide whether a row may be written: `commit` and `open_turns` do.

use std::borrow::Cow;

use rusqlite::Connection;
use serde_json::value::RawValue;

use crate::journal_codec::{CallRecord, MessageRecord};
use crate::rows::narrow::shared_values::SharedValues;
use crate::rows::narrow::{call_insert, message_insert, turn_insert};
use crate::rows::tool_call_rows;
use crate::rows::turn_columns::{TurnColumns, TurnEndColumns};
use crate::rows::turn_parents::Parent;
use crate::rows::{blobs, message_codec, message_rows, metadata_rows};
use crate::sqlite::error::Stored;
use base::clock::Clock;
use model::{
    AgentError, Attempt, Message, Metadata, ReplayClass, StopReason, TokenUsage, ToolCallRecord,
    TurnEnd, TurnHeader, TurnStatus, TurnType,
};

/// A row of `turns`.
pub(crate) struct Row<'a> {
    pub(crate) id: &'a str,
    pub(crate) parent_turn_id: Option<&'a str>,
    pub(crate) turn_type: TurnType,
    pub(crate) header: RowHeader<'a>,
    pub(crate) provider: &'a str,
    pub(crate) model: &'a str,
    /// A JSON array of names.
    pub(crate) tools_available: Cow<'a, str>,
    /// JSON.
    pub(crate) permissions_granted: &'a str,
    /// JSON.
    pub(crate) permissions_used: Option<&'a str>,
    pub(crate) query_message_ids: &'a [String],
    /// The host's own data: JSON.
    pub(crate) metadata: Option<&'a str>,
    pub(crate) outcome: RowOutcome<'a>,
}

/// The columns that name the run, the session and the origin of a turn.
#[derive(Clone, Copy)]
pub(crate) struct RowHeader<'a> {
    pub(crate) run_id: &'a str,
    pub(crate) session_label: &'a str,
    pub(crate) started_at: i64,
    pub(crate) role: &'a str,
    pub(crate) toolset_name: Option<&'a str>,
    pub(crate) source_event_id: Option<&'a str>,
    pub(crate) workspace_path: Option<&'a str>,
}

impl<'a> From<&'a TurnHeader> for RowHeader<'a> {
    fn from(header: &'a TurnHeader) -> Self {
        Self {
            run_id: &header.run_id,
            session_label: &header.session_label,
            started_at: header.started_at,
            role: header.role.as_str(),
            toolset_name: Some(&header.toolset_name),
            source_event_id: header.source_event_id.as_deref(),
            workspace_path: Some(&header.workspace_path),
        }
    }
}

/// The columns of a turn that has ended.
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
    /// The row of a turn that was not opened before its end; for an opened turn, the values that its end sets.
    pub(crate) fn ended(turn: &'a TurnEnd, parent_turn_id: Option<&'a str>) -> Self {
        Self {
            id: &turn.turn_id,
            parent_turn_id,
            turn_type: TurnType::Normal,
            header: RowHeader::from(&turn.header),
            provider: &turn.settings.provider,
            model: &turn.settings.model,
            tools_available: Cow::Owned(json(&turn.settings.tools_available)),
            permissions_granted: &turn.settings.permissions_granted,
            permissions_used: turn.permissions_used.as_deref(),
            query_message_ids: &turn.query_message_ids,
            metadata: turn.settings.metadata.as_ref().map(Metadata::as_str),
            outcome: RowOutcome {
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
            },
        }
    }
}

/// Writes the row of a turn. Returns the turn's number.
pub(crate) fn insert_turn(
    connection: &Connection,
    row: &Row<'_>,
    parent: Option<&Parent>,
) -> Stored<i64> {
    let Row { header, outcome, .. } = row;
    let (queries, attempts) = (json(&row.query_message_ids), json(&outcome.attempts));
    let error = outcome.error;
    let above = parent.map_or(0, |parent| parent.thread_tokens);
    let columns = TurnColumns {
        id: row.id,
        parent_turn_id: row.parent_turn_id,
        turn_type: match row.turn_type {
            TurnType::Normal => "normal",
            TurnType::Compaction => "compaction",
        },
        depth: parent.map_or(0, |parent| parent.depth + 1),
        session_label: header.session_label,
        run_id: header.run_id,
        started_at: header.started_at,
        role: header.role,
        toolset_name: header.toolset_name,
        tools_available: Some(&row.tools_available),
        permissions_granted: Some(row.permissions_granted),
        permissions_used: row.permissions_used,
        source_event_id: header.source_event_id,
        workspace_path: header.workspace_path,
        end: TurnEndColumns {
            status: outcome.status.as_str(),
            completed_at: Some(outcome.completed_at),
            thread_tokens: above.saturating_add(integer(outcome.usage.total_tokens)),
            model: Some(row.model),
            provider: Some(row.provider),
            usage: outcome.usage,
            usage_estimated: outcome.usage_estimated,
            context_tokens: outcome.context_tokens.map(integer),
            cost: outcome.cost,
            query_message_ids: Some(&queries),
            response_message_id: outcome.response_message_id,
            tool_call_count: count(outcome.tool_call_count),
            stop_reason: Some(outcome.stop_reason.as_str()),
            error_kind: error.map(|error| error.kind.as_str()),
            error_message: error.map(|error| error.message.as_str()),
            error_retryable: error.map(|error| error.retryable),
            error_code: error.and_then(|error| error.detail.code.as_deref()),
            attempts_json: Some(&attempts),
        },
    };
    let doing = format_args!("write turn `{}`", row.id);
    let number = turn_insert::insert(connection, &columns, parent.map(|parent| parent.n), doing)?;
    if let Some(metadata) = row.metadata {
        metadata_rows::add_to_turn(connection, number, metadata)?;
    }
    Ok(number)
}

/// Calls `with` with the row of a message, after storing its large values as blobs.
pub(crate) fn with_message<T>(
    connection: &Connection,
    message: &Message,
    with: impl FnOnce(&MessageRecord<'_>) -> T,
) -> Stored<T> {
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
    Ok(with(&MessageRecord {
        id: &message.id,
        role: message.role.as_str(),
        sequence: message.sequence,
        created_at: message.created_at,
        tool_call_id: columns.tool_call_id.as_deref(),
        is_error: columns.is_error,
        provider,
        api,
        model,
        response_id,
        stop_reason,
        checksum: message_codec::checksum(message.role.as_str(), columns.lend(), provenance),
        content: content.as_deref().unwrap_or_default(),
        thinking: thinking.as_deref(),
        blocks_json: blocks_json.as_deref(),
        blobs_json: blobs_json.as_deref(),
    }))
}

pub(crate) fn insert_message(
    connection: &Connection,
    turn: i64,
    message: &Message,
    shared: &mut SharedValues,
) -> Stored<()> {
    with_message(connection, message, |record| {
        insert_message_row(connection, turn, record, shared)
    })?
}

/// Writes a message from its columns.
pub(crate) fn insert_message_row(
    connection: &Connection,
    turn: i64,
    message: &MessageRecord<'_>,
    shared: &mut SharedValues,
) -> Stored<()> {
    let columns = message_rows::columns_of(turn, message)?;
    message_insert::insert(
        connection,
        &columns,
        shared,
        format_args!("write message `{}`", message.id),
    )
}

/// Calls `with` with the row of a call, after storing its large values as blobs. The row has the replay class of its tool
/// and the hash of its arguments, if the step has them.
pub(crate) fn with_tool_call<T>(
    connection: &Connection,
    (call, replay, arguments_hash): (&ToolCallRecord, Option<ReplayClass>, Option<&str>),
    clock: &Clock,
    with: impl FnOnce(&CallRecord<'_>) -> T,
) -> Stored<T> {
    let made = call.call_id.is_empty().then(|| clock.new_id());
    let result = call.result.as_deref().map(RawValue::get);
    let values = blobs::of_tool_call(call.params.get(), result);
    let ([params_json, result_json], blobs_json) = blobs::take_apart(connection, values)?;
    Ok(with(&CallRecord {
        id: made.as_deref().unwrap_or(&call.call_id),
        provider_call_id: &call.id,
        message_id: Some(call.message_id.as_str()).filter(|id| !id.is_empty()),
        tool_name: &call.tool_name,
        status: call.status.as_str(),
        spawned_session_label: call.spawned_session_label.as_deref(),
        started_at: call.started_at,
        completed_at: call.completed_at,
        sequence: call.sequence,
        error: call.error.as_deref(),
        params_json: params_json.as_deref().unwrap_or_default(),
        result_json: result_json.as_deref(),
        replay: replay.map(ReplayClass::as_str),
        arguments_hash,
        blobs_json: blobs_json.as_deref(),
    }))
}

pub(crate) fn insert_tool_call(
    connection: &Connection,
    turn: i64,
    call: &ToolCallRecord,
    shared: &SharedValues,
    clock: &Clock,
) -> Stored<()> {
    with_tool_call(connection, (call, None, None), clock, |record| {
        insert_tool_call_row(connection, turn, record, shared)
    })?
}

/// Writes a call from its columns.
pub(crate) fn insert_tool_call_row(
    connection: &Connection,
    turn: i64,
    call: &CallRecord<'_>,
    shared: &SharedValues,
) -> Stored<()> {
    let columns = tool_call_rows::columns_of(turn, call)?;
    call_insert::insert(connection, &columns, shared, format_args!("write tool call `{}`", call.id))
}

/// SQLite's integers are signed; a larger count is a provider's mistake, and becomes the largest integer.
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
