//! W4 (DESIGN §4): what a finished run leaves in the ledger, in the transaction the writer has opened.
//!
//! The session's pointer is compared and set; a turn never lands on a head its run did not know. It must never write a
//! part: every check stands before the first row, and an error after it undoes the job.

use rusqlite::{Connection, OptionalExtension, params};

use super::compaction;
use super::error::{Stored, sqlite};
use super::sessions::{self, DEFAULT_PERSONA};
use super::stored;
use crate::clock::Clock;
use crate::model::{
    AgentErrorKind, CommitReceipt, Message, StopReason, StorageError, StorageErrorKind, TokenUsage,
    ToolCallRecord, TurnCommit, TurnStatus, TurnType,
};

/// What of the parent a child continues.
pub(super) struct Parent {
    pub(super) depth: i64,
    pub(super) thread_tokens: i64,
}

/// A row of `turns`; the compaction's and the run's differ only here.
pub(super) struct Row<'a> {
    pub(super) id: &'a str,
    pub(super) parent_turn_id: Option<&'a str>,
    pub(super) turn_type: TurnType,
    pub(super) status: TurnStatus,
    pub(super) stop_reason: StopReason,
    pub(super) model: &'a str,
    pub(super) provider: &'a str,
    pub(super) usage: TokenUsage,
    pub(super) completed_at: i64,
}

/// Writes the turn, its messages and tool calls, and moves the session's pointer as RULES §1 says.
///
/// # Errors
/// `stale_head` when the session has moved on, `unknown_turn` for a parent that is not there, `storage_constraint` for
/// an id that is there already. Nothing is written then.
pub(super) fn commit_turn(
    connection: &Connection,
    turn: &TurnCommit,
    clock: &Clock,
) -> Stored<CommitReceipt> {
    let session = sessions::head(connection, &turn.session_label)?;
    let head = session.clone().flatten();
    let moves = turn.move_pointer || turn.compaction.is_some();
    let mut parent_id = turn.parent_turn_id.clone();
    if moves && head != turn.expected_head {
        let rebased = head.as_deref().filter(|head| is_compaction_of(connection, head, turn));
        let Some(new_head) = rebased else {
            return Err(stale(turn, head.as_deref()));
        };
        if parent_id == turn.expected_head {
            parent_id = Some(new_head.to_owned());
        }
    }
    let mut parent = parent_id.as_deref().map(|id| parent_of(connection, id)).transpose()?;
    if session.is_none() {
        let persona = sessions::persona_of_turn(connection, parent_id.as_deref())?
            .unwrap_or_else(|| DEFAULT_PERSONA.to_owned());
        sessions::create(connection, &turn.session_label, &persona, turn.completed_at)?;
    }
    let mut new_head = head;
    if let Some(result) = &turn.compaction {
        let Some(before) = parent_id.as_deref() else {
            return Err(StorageError::new(
                StorageErrorKind::Constraint,
                format!(
                    "turn `{}` has a compaction but no parent that could be compacted",
                    turn.turn_id
                ),
            ));
        };
        let id = clock.new_id();
        parent = Some(compaction::write_turn(connection, turn, result, (&id, before), clock)?);
        move_pointer(connection, turn, &id)?;
        parent_id = Some(id.clone());
        new_head = Some(id);
    }
    let row = Row {
        id: &turn.turn_id,
        parent_turn_id: parent_id.as_deref(),
        turn_type: TurnType::Normal,
        status: turn.status,
        stop_reason: turn.stop_reason,
        model: &turn.model,
        provider: &turn.provider,
        usage: turn.usage,
        completed_at: turn.completed_at,
    };
    insert_turn(connection, turn, &row, parent.as_ref())?;
    for message in &turn.messages {
        insert_message(connection, &turn.turn_id, message)?;
    }
    for call in &turn.tool_calls {
        insert_tool_call(connection, &turn.turn_id, call, clock)?;
    }
    if let Some(result) = &turn.compaction
        && let Some(id) = &parent_id
    {
        // Last, because the first kept turn may be this very turn.
        compaction::write_row(connection, id, result)?;
    }
    if turn.move_pointer {
        move_pointer(connection, turn, &turn.turn_id)?;
        new_head = Some(turn.turn_id.clone());
    }
    Ok(CommitReceipt { turn_id: turn.turn_id.clone(), head: new_head })
}

fn stale(turn: &TurnCommit, head: Option<&str>) -> StorageError {
    StorageError::new(
        StorageErrorKind::StaleHead,
        format!(
            "session `{}` moved from `{}` to `{}` since the run began, and turn `{}` was not written; run it again",
            turn.session_label,
            turn.expected_head.as_deref().unwrap_or("no turn"),
            head.unwrap_or("no turn"),
            turn.turn_id
        ),
    )
}

/// Whether the head is a compaction (of a compaction …) of the head the run began from: the one case of RULES §5 in
/// which a run may go on.
fn is_compaction_of(connection: &Connection, head: &str, turn: &TurnCommit) -> bool {
    let mut at = head.to_owned();
    loop {
        let row = connection
            .prepare_cached("SELECT turn_type, parent_turn_id FROM turns WHERE id = ?1")
            .and_then(|mut statement| {
                statement.query_row((&at,), |row| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
                })
            });
        match row {
            Ok((kind, parent)) if kind == "compaction" => {
                if parent == turn.expected_head {
                    return true;
                }
                match parent {
                    Some(parent) => at = parent,
                    None => return false,
                }
            }
            Ok(_) | Err(_) => return false,
        }
    }
}

pub(super) fn parent_of(connection: &Connection, id: &str) -> Stored<Parent> {
    connection
        .prepare_cached("SELECT depth, thread_tokens FROM turns WHERE id = ?1")
        .and_then(|mut statement| {
            statement
                .query_row((id,), |row| {
                    Ok(Parent { depth: row.get(0)?, thread_tokens: row.get(1)? })
                })
                .optional()
        })
        .map_err(|error| sqlite("read the parent turn", &error))?
        .ok_or_else(|| unknown_turn(id))
}

/// The refusal of a turn that is not there.
pub(super) fn unknown_turn(id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownTurn,
        format!("the ledger has no turn `{id}`; pass the id of a turn that was committed"),
    )
}

pub(super) fn insert_turn(
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
        .prepare_cached(
            "INSERT INTO turns (id, parent_turn_id, turn_type, status, depth, thread_tokens, session_label, run_id,
               started_at, completed_at, model, provider, role, toolset_name, tools_available, permissions_granted,
               input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, total_tokens,
               usage_estimated, context_tokens, cost, query_message_ids, response_message_id, tool_call_count,
               source_event_id, workspace_path, stop_reason, error_kind, error_message, error_retryable, attempts_json)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
               ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35)",
        )
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
                normal.is_some_and(|turn| turn.usage_estimated),
                normal.and_then(|turn| turn.context_tokens).map(integer),
                normal.and_then(|turn| turn.cost),
                json(&normal.map_or(&[][..], |turn| &turn.query_message_ids)),
                normal.and_then(|turn| turn.response_message_id.as_deref()),
                integer(normal.map_or(0, |turn| count(&turn.tool_calls))),
                turn.source_event_id,
                turn.workspace_path,
                row.stop_reason.as_str(),
                error.map(|error| error_kind(error.kind)),
                error.map(|error| error.message.as_str()),
                error.map(|error| error.retryable),
                json(&normal.map_or(&[][..], |turn| &turn.attempts)),
            ])
        })
        .map(drop)
        .map_err(|error| sqlite(&format!("write turn `{}`", row.id), &error))
}

pub(super) fn insert_message(
    connection: &Connection,
    turn_id: &str,
    message: &Message,
) -> Stored<()> {
    let columns = stored::encode(message)?;
    let from = message.provenance.as_ref();
    let provenance = [
        from.map(|from| from.provider.as_str()),
        from.map(|from| from.api.as_str()),
        from.map(|from| from.model.as_str()),
        from.and_then(|from| from.response_id.as_deref()),
        message.provider_stop_reason.as_deref(),
    ];
    let [provider, api, model, response_id, stop_reason] = provenance;
    connection
        .prepare_cached(
            "INSERT INTO messages (id, turn_id, role, sequence, created_at, tool_call_id, is_error, provider, api,
               model, response_id, stop_reason, checksum, content, thinking, blocks_json)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        )
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
                stored::checksum(message.role.as_str(), columns.lend(), provenance),
                columns.content,
                columns.thinking,
                columns.blocks_json,
            ])
        })
        .map(drop)
        .map_err(|error| sqlite(&format!("write message `{}`", message.id), &error))
}

fn insert_tool_call(
    connection: &Connection,
    turn_id: &str,
    call: &ToolCallRecord,
    clock: &Clock,
) -> Stored<()> {
    let made = call.call_id.is_empty().then(|| clock.new_id());
    let message_id = Some(call.message_id.as_str()).filter(|id| !id.is_empty());
    connection
        .prepare_cached(
            "INSERT INTO tool_calls (id, provider_call_id, turn_id, message_id, tool_name, status,
               spawned_session_label, started_at, completed_at, sequence, error, params_json, result_json)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )
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
                call.params.get(),
                call.result.as_deref().map(serde_json::value::RawValue::get),
            ])
        })
        .map(drop)
        .map_err(|error| sqlite(&format!("write tool call `{}`", call.id), &error))
}

fn move_pointer(connection: &Connection, turn: &TurnCommit, to: &str) -> Stored<()> {
    sessions::move_pointer(connection, &turn.session_label, to, turn.completed_at)
}

/// SQLite's integers are signed; a count beyond them is a provider's mistake, and the largest there is.
pub(super) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn count<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}

fn json(value: &impl serde::Serialize) -> String {
    // Lists of strings and of plain structs: serde_json has no error for them.
    serde_json::to_string(value).unwrap_or_else(|_| "[]".to_owned())
}

fn error_kind(kind: AgentErrorKind) -> &'static str {
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
