//! The columns of `turns`: the whole row, the part that the end of a turn writes, and the part for lists. It must never read
//! or write a row.

use crate::sqlite::columns::columns;
use model::{TokenUsage, TurnSummary};

/// A row of `turns`, without `has_children`, which a trigger of the schema sets.
#[derive(Debug)]
pub(crate) struct TurnColumns<'r> {
    pub(crate) id: &'r str,
    pub(crate) parent_turn_id: Option<&'r str>,
    pub(crate) turn_type: &'r str,
    pub(crate) depth: i64,
    pub(crate) session_label: &'r str,
    pub(crate) run_id: &'r str,
    pub(crate) started_at: i64,
    pub(crate) role: &'r str,
    pub(crate) toolset_name: Option<&'r str>,
    /// A JSON array of names.
    pub(crate) tools_available: Option<&'r str>,
    /// JSON of the host's.
    pub(crate) permissions_granted: Option<&'r str>,
    /// JSON of the host's.
    pub(crate) permissions_used: Option<&'r str>,
    pub(crate) source_event_id: Option<&'r str>,
    pub(crate) workspace_path: Option<&'r str>,
    pub(crate) end: TurnEndColumns<'r>,
}

/// The columns of `turns` that the end of a turn writes.
#[derive(Debug)]
pub(crate) struct TurnEndColumns<'r> {
    pub(crate) status: &'r str,
    pub(crate) completed_at: Option<i64>,
    pub(crate) thread_tokens: i64,
    pub(crate) model: Option<&'r str>,
    pub(crate) provider: Option<&'r str>,
    pub(crate) usage: TokenUsage,
    pub(crate) usage_estimated: bool,
    pub(crate) context_tokens: Option<i64>,
    pub(crate) cost: Option<f64>,
    /// A JSON array of ids.
    pub(crate) query_message_ids: Option<&'r str>,
    pub(crate) response_message_id: Option<&'r str>,
    pub(crate) tool_call_count: i64,
    pub(crate) stop_reason: Option<&'r str>,
    pub(crate) error_kind: Option<&'r str>,
    pub(crate) error_message: Option<&'r str>,
    pub(crate) error_retryable: Option<bool>,
    pub(crate) error_code: Option<&'r str>,
    /// A JSON array of [`model::Attempt`].
    pub(crate) attempts_json: Option<&'r str>,
}

columns!(for<'r> TurnColumns<'r> {
    id,
    parent_turn_id,
    turn_type,
    depth,
    session_label,
    run_id,
    started_at,
    role,
    toolset_name,
    tools_available,
    permissions_granted,
    permissions_used,
    source_event_id,
    workspace_path,
    end: TurnEndColumns<'r>,
});

columns!(for<'r> TurnEndColumns<'r> {
    status,
    completed_at,
    thread_tokens,
    model,
    provider,
    usage: TokenUsage,
    usage_estimated,
    context_tokens,
    cost,
    query_message_ids,
    response_message_id,
    tool_call_count,
    stop_reason,
    error_kind,
    error_message,
    error_retryable,
    error_code,
    attempts_json,
});

columns!(TokenUsage {
    input_tokens,
    output_tokens,
    cached_input_tokens,
    cache_write_tokens,
    reasoning_tokens,
    total_tokens,
});

columns!(TurnSummary {
    id,
    parent_turn_id,
    turn_type,
    status,
    session_label,
    run_id,
    depth,
    has_children,
    started_at,
    completed_at,
    model,
    provider,
    role,
    usage: TokenUsage,
    cost,
    tool_call_count,
    stop_reason,
} and { metadata: None });
