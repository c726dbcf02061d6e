//! Reads turns from rows: the summary of a list, and a whole turn.
//!
//! It must never return an altered part as a sound one.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::connect::error::{Stored, damaged};
use crate::rows::body;
use crate::rows::turn_body::{HeaderBody, OutcomeBody};
use model::{AgentMessage, AgentToolCall, Message, TokenUsage, TurnRow, TurnSummary};

/// The columns of a turn `t`, in the order in which they are read.
pub(crate) const TURN: &str = "t.id, t.parent_turn_id, t.turn_type, t.status, t.session_label, t.run_id, t.depth,
    exists (select from @turns c where c.parent_turn_id = t.id and c.status <> 'streaming') as has_children,
    t.started_at, t.completed_at, t.model, t.provider, t.role, t.input_tokens, t.output_tokens, t.cached_input_tokens,
    t.cache_write_tokens, t.reasoning_tokens, t.total_tokens, t.cost, t.tool_call_count, t.stop_reason, t.header,
    t.outcome, t.checksum, t.thread_tokens";

/// A column of a row.
pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Stored<T> {
    row.try_get(name)
        .map_err(|error| damaged(format_args!("column `{name}` cannot be read ({error})")))
}

fn usage(row: &Row) -> Stored<TokenUsage> {
    let tokens = |name: &str| -> Stored<u64> {
        u64::try_from(get::<i64>(row, name)?).map_err(|_| damaged("a turn has fewer than 0 tokens"))
    };
    Ok(TokenUsage {
        input_tokens: tokens("input_tokens")?,
        output_tokens: tokens("output_tokens")?,
        cached_input_tokens: tokens("cached_input_tokens")?,
        cache_write_tokens: tokens("cache_write_tokens")?,
        reasoning_tokens: tokens("reasoning_tokens")?,
        total_tokens: tokens("total_tokens")?,
    })
}

/// What the opening and the end of a turn wrote.
pub(crate) fn bodies(row: &Row) -> Stored<(HeaderBody, OutcomeBody)> {
    let what = format!("turn `{}`", get::<&str>(row, "id")?);
    body::decode_both(get(row, "header")?, get(row, "outcome")?, get(row, "checksum")?, &what)
}

/// A turn of a list.
pub(crate) fn summary(row: &Row) -> Stored<TurnSummary> {
    let (header, _) = bodies(row)?;
    Ok(TurnSummary {
        id: get(row, "id")?,
        parent_turn_id: get(row, "parent_turn_id")?,
        turn_type: get(row, "turn_type")?,
        status: get(row, "status")?,
        session_label: get(row, "session_label")?,
        run_id: get(row, "run_id")?,
        depth: get(row, "depth")?,
        has_children: get(row, "has_children")?,
        started_at: get(row, "started_at")?,
        completed_at: get(row, "completed_at")?,
        model: get(row, "model")?,
        provider: get(row, "provider")?,
        role: get(row, "role")?,
        usage: usage(row)?,
        cost: get(row, "cost")?,
        tool_call_count: get(row, "tool_call_count")?,
        stop_reason: get(row, "stop_reason")?,
        metadata: header.metadata(),
    })
}

/// A turn without its messages, calls and compaction.
pub(crate) fn turn(row: &Row) -> Stored<TurnRow> {
    let (header, outcome) = bodies(row)?;
    let summary = summary(row)?;
    let is_open = summary.status == "streaming";
    Ok(TurnRow {
        id: summary.id,
        parent_turn_id: summary.parent_turn_id,
        turn_type: summary.turn_type,
        status: summary.status,
        session_label: summary.session_label,
        run_id: summary.run_id,
        depth: summary.depth,
        has_children: summary.has_children,
        started_at: summary.started_at,
        completed_at: summary.completed_at,
        model: summary.model,
        provider: summary.provider,
        role: summary.role,
        toolset_name: header.toolset_name,
        tools_available: header.tools_available,
        permissions_granted: header.permissions_granted,
        permissions_used: outcome.permissions_used,
        usage: summary.usage,
        usage_estimated: outcome.usage_estimated,
        thread_tokens: get(row, "thread_tokens")?,
        context_tokens: outcome.context_tokens,
        cost: summary.cost,
        query_message_ids: if is_open {
            header.query_message_ids
        } else {
            outcome.query_message_ids
        },
        response_message_id: outcome.response_message_id,
        tool_call_count: summary.tool_call_count,
        source_event_id: header.source_event_id,
        workspace_path: header.workspace_path,
        metadata: summary.metadata,
        stop_reason: summary.stop_reason,
        error: outcome.error,
        attempts: outcome.attempts,
        compaction: None,
        messages: Vec::new(),
        tool_calls: Vec::new(),
    })
}

/// The columns of a message that are read.
pub(crate) const MESSAGE: &str = "turn_id, id, body, checksum";

/// A message from its row.
pub(crate) fn message(row: &Row) -> Stored<Message> {
    let what = format!("message `{}`", get::<&str>(row, "id")?);
    body::decode(get(row, "body")?, get(row, "checksum")?, &what)
}

/// A tool call from its row.
pub(crate) fn call(row: &Row) -> Stored<AgentToolCall> {
    let what = format!("tool call `{}`", get::<&str>(row, "id")?);
    body::decode(get(row, "body")?, get(row, "checksum")?, &what)
}

/// The messages of rows, in the form for a host.
pub(crate) fn messages(rows: &[Row]) -> Stored<Vec<AgentMessage>> {
    rows.iter().map(|row| message(row).map(AgentMessage::from)).collect()
}
