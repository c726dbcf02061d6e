//! A broker's own `(context, result)` as a commit: the broker interface's write sequence, read field by field.
//!
//! Results as the broker interface defines them, without the fields this engine adds, are enough. Pure: it must never touch the
//! file, and it leaves the session's head to the transaction.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    AgentError, AgentErrorKind, AgentToolCall, AssembledContext, Attempt, Block, CompactionResult,
    Defaults, ErrorDetail, InputError, Message, OnStaleHead, Role, StopReason, TokenUsage,
    ToolCallRecord, ToolCallStatus, TurnEnd, TurnHeader, TurnSettings, TurnStatus, optional,
    parse_message, query_message_ids, required, response_message_id,
};

type Parsed<T> = Result<T, InputError>;
type Raw<'a> = Option<&'a RawValue>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResult<'a> {
    #[serde(borrow, default)]
    turn_id: Raw<'a>,
    #[serde(borrow, default)]
    messages: Raw<'a>,
    #[serde(borrow, default)]
    tool_calls: Raw<'a>,
    #[serde(borrow, default)]
    usage: Raw<'a>,
    #[serde(borrow, default)]
    usage_estimated: Raw<'a>,
    #[serde(borrow, default)]
    context_tokens: Raw<'a>,
    #[serde(borrow, default)]
    cost: Raw<'a>,
    #[serde(borrow, default)]
    stop_reason: Raw<'a>,
    #[serde(borrow, default)]
    duration_ms: Raw<'a>,
    #[serde(borrow, default)]
    error: Raw<'a>,
    #[serde(borrow, default)]
    compaction: Raw<'a>,
    #[serde(borrow, default)]
    attempts: Raw<'a>,
}

/// The broker interface's `AgentError`; `detail` is this engine's.
#[derive(Deserialize)]
struct SeedError {
    kind: AgentErrorKind,
    message: String,
    retryable: bool,
    #[serde(default)]
    detail: Option<ErrorDetail>,
}

/// The fields of a message that [`parse_message`] does not need and a turn does.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMessage<'a> {
    #[serde(borrow, default)]
    id: Raw<'a>,
    #[serde(borrow, default)]
    sequence: Raw<'a>,
    #[serde(borrow, default)]
    created_at: Raw<'a>,
    #[serde(borrow, default)]
    blocks: Raw<'a>,
}

/// The commit of `result`, whose head is still open: see [`crate::LedgerAdmin::write_turn`].
///
/// # Errors
/// The first field that is missing or wrong, by its path: `result.messages[2].role`.
pub fn parse_result(
    context: &AssembledContext,
    result: &str,
    defaults: &mut Defaults<'_>,
) -> Parsed<TurnEnd> {
    let raw: RawResult<'_> = serde_json::from_str(result)
        .map_err(|error| InputError::new("result", format!("not a result object: {error}")))?;
    let stop_reason: StopReason = required("result.stopReason", raw.stop_reason)?;
    let duration: u64 = required("result.durationMs", raw.duration_ms)?;
    let usage: TokenUsage = required("result.usage", raw.usage)?;
    let mut tool_calls = tool_calls(raw.tool_calls)?;
    let (mut messages, bare) = messages(raw.messages, defaults)?;
    link(&mut messages, &bare, &mut tool_calls);
    let completed_at = defaults.now_ms;
    let status = TurnStatus::of(stop_reason);
    let turn_id = match optional::<String>("result.turnId", raw.turn_id)? {
        Some(id) if id.is_empty() => {
            return Err(InputError::new("result.turnId", "is empty; pass a ULID, or leave it out"));
        }
        Some(id) => id,
        None => (defaults.new_id)(),
    };
    let query_message_ids = query_message_ids(&messages);
    let mut settings = TurnSettings::new(context);
    // The messages of the result are not those of the context.
    if let (Some(layers), Some(asked)) = (&mut settings.layers, query_message_ids.last()) {
        layers.message_id.clone_from(asked);
    }
    let started_at = completed_at.saturating_sub(i64::try_from(duration).unwrap_or(i64::MAX));
    Ok(TurnEnd {
        turn_id,
        header: TurnHeader::new(context, started_at),
        settings,
        move_pointer: moves_pointer(status, &messages, &tool_calls),
        status,
        stop_reason,
        completed_at,
        usage,
        usage_estimated: optional("result.usageEstimated", raw.usage_estimated)?.unwrap_or(false),
        context_tokens: optional("result.contextTokens", raw.context_tokens)?,
        cost: optional("result.cost", raw.cost)?,
        query_message_ids,
        response_message_id: response_message_id(&messages),
        error: optional::<SeedError>("result.error", raw.error)?.map(error),
        attempts: optional::<Vec<Attempt>>("result.attempts", raw.attempts)?.unwrap_or_default(),
        tool_call_count: tool_calls.len(),
        messages,
        tool_calls,
        compaction: optional::<CompactionResult>("result.compaction", raw.compaction)?,
        epoch: None,
        on_stale_head: OnStaleHead::Refuse,
        last_event: None,
        cache: None,
        queue: None,
        permissions_used: None,
        has_approvals: false,
    })
}

/// docs/rules/turns-and-streams.md#session-pointer: a failed turn moves the pointer only where it has output, because a retry would otherwise double
/// the user's message.
fn moves_pointer(status: TurnStatus, messages: &[Message], calls: &[ToolCallRecord]) -> bool {
    match status {
        TurnStatus::Completed | TurnStatus::Aborted => true,
        TurnStatus::Streaming => false,
        TurnStatus::Failed => {
            let has_output = |message: &Message| {
                message.role == Role::Assistant
                    && (!message.content().is_empty()
                        || message
                            .blocks
                            .iter()
                            .any(|block| matches!(block, Block::ToolCall { .. })))
            };
            messages.iter().any(has_output)
                || calls.iter().any(|call| call.status == ToolCallStatus::Completed)
        }
    }
}

fn error(given: SeedError) -> AgentError {
    let kind = given.kind.failure_kind();
    let bare = ErrorDetail {
        kind,
        status: None,
        code: None,
        retry_after_ms: None,
        retry_after_source: None,
    };
    AgentError {
        kind: given.kind,
        message: given.message,
        retryable: given.retryable,
        detail: given.detail.unwrap_or(bare),
    }
}

fn items<'a>(path: &str, raw: Raw<'a>) -> Parsed<Vec<&'a RawValue>> {
    let raw = raw.ok_or_else(|| InputError::new(path, "is missing"))?;
    serde_json::from_str(raw.get()).map_err(|_| InputError::new(path, "is not an array"))
}

/// The messages in order, and the ids of those without blocks.
fn messages(raw: Raw<'_>, defaults: &mut Defaults<'_>) -> Parsed<(Vec<Message>, HashSet<String>)> {
    let mut messages: Vec<Message> = Vec::new();
    let mut bare = HashSet::new();
    for (index, raw) in items("result.messages", raw)?.into_iter().enumerate() {
        let path = format!("result.messages[{index}]");
        let mut message = parse_message(&path, raw.get(), defaults)?;
        let fields: RawMessage<'_> = serde_json::from_str(raw.get())
            .map_err(|_| InputError::new(&path, "is not a message object"))?;
        message.id = id(&format!("{path}.id"), fields.id)?;
        message.sequence = required(&format!("{path}.sequence"), fields.sequence)?;
        message.created_at = required(&format!("{path}.createdAt"), fields.created_at)?;
        if messages.last().is_some_and(|last| last.sequence >= message.sequence) {
            return Err(InputError::new(
                format!("{path}.sequence"),
                format!("`{}` does not come after the message before it", message.sequence),
            ));
        }
        if messages.iter().any(|other| other.id == message.id) {
            return Err(InputError::new(
                format!("{path}.id"),
                format!("`{}` is there twice", message.id),
            ));
        }
        if fields.blocks.is_none() {
            bare.insert(message.id.clone());
        }
        messages.push(message);
    }
    Ok((messages, bare))
}

fn id(path: &str, raw: Raw<'_>) -> Parsed<String> {
    let id: String = required(path, raw)?;
    if id.is_empty() { Err(InputError::new(path, "is empty")) } else { Ok(id) }
}

fn tool_calls(raw: Raw<'_>) -> Parsed<Vec<ToolCallRecord>> {
    let mut calls: Vec<ToolCallRecord> = Vec::new();
    for (index, raw) in items("result.toolCalls", raw)?.into_iter().enumerate() {
        let path = format!("result.toolCalls[{index}]");
        let call: AgentToolCall = required(&path, Some(raw))?;
        if !call.params.get().starts_with('{') {
            return Err(InputError::new(format!("{path}.params"), "is not an object"));
        }
        if calls.last().is_some_and(|last| last.sequence >= call.sequence) {
            return Err(InputError::new(
                format!("{path}.sequence"),
                format!("`{}` does not come after the call before it", call.sequence),
            ));
        }
        calls.push(call);
    }
    Ok(calls)
}

/// The broker interface's messages do not name which of them requested a tool. A result follows its assistant message, so that one
/// gets the call (as a block too where it came without blocks: without it a provider would refuse the history), and
/// the result gets the tool's name. Provider ids may repeat in a turn, so each call is used once, in order.
fn link(messages: &mut [Message], bare: &HashSet<String>, calls: &mut [ToolCallRecord]) {
    let mut waiting: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, call) in calls.iter().enumerate().rev() {
        waiting.entry(call.id.clone()).or_default().push(index);
    }
    let mut assistant: Option<usize> = None;
    for index in 0..messages.len() {
        let Some(message) = messages.get_mut(index) else { continue };
        match message.role {
            Role::Assistant => assistant = Some(index),
            Role::User | Role::System => {}
            Role::Tool => {
                let plain = bare.contains(&message.id);
                let Some((provider_id, _)) = message.tool_result() else { continue };
                let taken = waiting.get_mut(provider_id).and_then(Vec::pop);
                let Some(call) = taken.and_then(|taken| calls.get_mut(taken)) else { continue };
                if plain {
                    complete_result(message, call);
                }
                if let Some(request) = assistant.and_then(|at| messages.get_mut(at)) {
                    attach(request, bare, call);
                }
            }
        }
    }
    // Calls without a result message are those of the last assistant message.
    let Some(request) = assistant.and_then(|at| messages.get_mut(at)) else { return };
    let mut left: Vec<usize> = waiting.into_values().flatten().collect();
    left.sort_unstable();
    for index in left {
        if let Some(call) = calls.get_mut(index) {
            attach(request, bare, call);
        }
    }
}

fn attach(request: &mut Message, bare: &HashSet<String>, call: &mut ToolCallRecord) {
    if call.message_id.is_empty() {
        call.message_id.clone_from(&request.id);
    }
    if bare.contains(&request.id) {
        request.blocks.push(Block::ToolCall {
            id: call.id.clone(),
            name: call.tool_name.clone(),
            arguments_json: call.params.get().to_owned(),
            incomplete: false,
            provider_data: None,
        });
    }
}

fn complete_result(message: &mut Message, call: &ToolCallRecord) {
    for block in &mut message.blocks {
        if let Block::ToolResult { tool_name, is_error, .. } = block {
            if tool_name.is_empty() {
                tool_name.clone_from(&call.tool_name);
            }
            *is_error |= call.status == ToolCallStatus::Failed;
        }
    }
}

#[cfg(test)]
mod tests;
