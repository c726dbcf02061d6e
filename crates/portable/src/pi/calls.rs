//! The tool calls of an imported turn. It must never invent a result.

use std::collections::HashSet;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::record::MessageRecord;
use base::clock::Clock;
use model::{AgentToolCall, Block, ToolCallStatus};

/// The calls of a turn with their results. A call that is not in `answered` was interrupted.
pub(super) fn calls(
    answered: &HashSet<String>,
    messages: &[MessageRecord],
    clock: &Clock,
) -> Vec<AgentToolCall> {
    let mut calls: Vec<AgentToolCall> = Vec::new();
    for MessageRecord { message, .. } in messages {
        for block in &message.blocks {
            match block {
                Block::ToolCall { id, name, arguments_json, .. } => {
                    let Ok(params) = RawValue::from_string(arguments_json.clone()) else {
                        continue;
                    };
                    let (status, error) = if answered.contains(id.as_str()) {
                        (ToolCallStatus::Completed, None)
                    } else {
                        (ToolCallStatus::Failed, Some("interrupted".to_owned()))
                    };
                    calls.push(AgentToolCall {
                        id: id.clone(),
                        tool_name: name.clone(),
                        params,
                        result: None,
                        error,
                        status,
                        started_at: message.created_at,
                        completed_at: None,
                        sequence: u32::try_from(calls.len()).unwrap_or(u32::MAX),
                        spawned_session_label: None,
                        call_id: clock.new_id(),
                        message_id: message.id.clone(),
                    });
                }
                Block::ToolResult { tool_call_id, is_error, .. } => {
                    let waits = |call: &&mut AgentToolCall| {
                        call.id == *tool_call_id && call.completed_at.is_none()
                    };
                    if let Some(call) = calls.iter_mut().find(waits) {
                        call.completed_at = Some(message.created_at);
                        let text = message.content();
                        if *is_error {
                            call.status = ToolCallStatus::Failed;
                            call.error = Some(text);
                        } else {
                            call.result = RawValue::from_string(Value::from(text).to_string()).ok();
                        }
                    }
                }
                Block::Text { .. }
                | Block::Image { .. }
                | Block::Thinking { .. }
                | Block::RedactedThinking { .. }
                | Block::Opaque { .. } => {}
            }
        }
    }
    calls
}
