//! Writes the row of a turn to `turn_rows`: narrow, with the checksum of the values that the view `turns` shows.
//!
//! It must never write a value that the view does not give back.

use std::fmt::Display;
use std::sync::LazyLock;

use rusqlite::{Connection, params_from_iter};

use crate::rows::narrow::strings;
use crate::rows::narrow::words::{ERROR_KINDS, ROLES, STATUSES, STOP_REASONS, TURN_TYPES, number};
use crate::rows::turn_columns::{TurnColumns, TurnEndColumns};
use crate::sqlite::checksum::RowSum;
use crate::sqlite::columns::{columns, list, values};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::TokenUsage;

/// A row of `turn_rows`, without `n`, and without `first_child`, which a trigger of the schema sets.
struct NarrowTurn<'r> {
    id: &'r str,
    parent: Option<i64>,
    turn_type: i64,
    status: i64,
    depth: i64,
    thread_tokens: i64,
    session_label: &'r str,
    run_id: &'r str,
    started_at: i64,
    completed_at: Option<i64>,
    model: Option<i64>,
    provider: Option<i64>,
    role: i64,
    toolset_name: Option<i64>,
    tools_available: Option<i64>,
    permissions_granted: Option<i64>,
    permissions_used: Option<i64>,
    usage: TokenUsage,
    usage_estimated: bool,
    context_tokens: Option<i64>,
    cost: Option<f64>,
    query_message_ids: Option<&'r str>,
    response_message_id: Option<&'r str>,
    tool_call_count: i64,
    source_event_id: Option<&'r str>,
    workspace_path: Option<i64>,
    stop_reason: Option<i64>,
    error_kind: Option<i64>,
    error_message: Option<&'r str>,
    error_retryable: Option<bool>,
    attempts_json: Option<&'r str>,
    error_code: Option<i64>,
    row_checksum: i64,
}

columns!(for<'r> NarrowTurn<'r> {
    id,
    parent,
    turn_type,
    status,
    depth,
    thread_tokens,
    session_label,
    run_id,
    started_at,
    completed_at,
    model,
    provider,
    role,
    toolset_name,
    tools_available,
    permissions_granted,
    permissions_used,
    usage: TokenUsage,
    usage_estimated,
    context_tokens,
    cost,
    query_message_ids,
    response_message_id,
    tool_call_count,
    source_event_id,
    workspace_path,
    stop_reason,
    error_kind,
    error_message,
    error_retryable,
    attempts_json,
    error_code,
    row_checksum,
});

static SUM: LazyLock<RowSum> = LazyLock::new(|| RowSum::of::<TurnColumns<'_>>("turns"));
static ADD: LazyLock<String> = LazyLock::new(|| {
    let names = list::<NarrowTurn<'_>>();
    let parameters = vec!["?"; names.split(", ").count()].join(", ");
    format!("INSERT INTO turn_rows ({names}) VALUES ({parameters})")
});

/// Writes the row of a turn whose parent has the number `parent`. Returns the turn's number.
///
/// # Errors
/// `storage_constraint` for an id that exists already, or a word that is in no list.
pub(crate) fn insert(
    connection: &Connection,
    row: &TurnColumns<'_>,
    parent: Option<i64>,
    doing: impl Display,
) -> Stored<i64> {
    let TurnColumns { end, .. } = row;
    let texts = [
        end.model,
        end.provider,
        row.toolset_name,
        row.tools_available,
        row.permissions_granted,
        row.permissions_used,
        row.workspace_path,
        end.error_code,
    ];
    let [model, provider, toolset_name, tools_available, granted, used, workspace_path, error_code] =
        strings::ids(connection, texts)?;
    let TurnEndColumns { usage, usage_estimated, context_tokens, cost, .. } = *end;
    let narrow = NarrowTurn {
        id: row.id,
        parent,
        turn_type: number(&TURN_TYPES, row.turn_type)?,
        status: number(&STATUSES, end.status)?,
        depth: row.depth,
        thread_tokens: end.thread_tokens,
        session_label: row.session_label,
        run_id: row.run_id,
        started_at: row.started_at,
        completed_at: end.completed_at,
        model,
        provider,
        role: number(&ROLES, row.role)?,
        toolset_name,
        tools_available,
        permissions_granted: granted,
        permissions_used: used,
        usage,
        usage_estimated,
        context_tokens,
        cost,
        query_message_ids: end.query_message_ids,
        response_message_id: end.response_message_id,
        tool_call_count: end.tool_call_count,
        source_event_id: row.source_event_id,
        workspace_path,
        stop_reason: end.stop_reason.map(|word| number(&STOP_REASONS, word)).transpose()?,
        error_kind: end.error_kind.map(|word| number(&ERROR_KINDS, word)).transpose()?,
        error_message: end.error_message,
        error_retryable: end.error_retryable,
        attempts_json: end.attempts_json,
        error_code,
        row_checksum: SUM.of_row(row),
    };
    sql::exec(connection, &ADD, params_from_iter(values(&narrow)), doing)?;
    Ok(connection.last_insert_rowid())
}
