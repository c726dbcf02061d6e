//! The body of one request: model, tools and messages first, the settings of this call last.
//!
//! In this order the bytes of call n up to its last message begin call n+1 too
//! (docs/rules/compaction.md#prompt-cache-stability). It must never copy the conversation.

use bytes::Bytes;

use super::effort::effort_of;
use super::encode::{BRIDGE, TOOL_END, USER_START, string};
use super::options;
use super::quirks::{ChatQuirks, MaxTokensField, ReasoningField, SystemRole};
use crate::ModelRequest;
use model::{ThinkingConfig, ThinkingEffort, ThinkingMode};

/// The body in pieces.
pub(super) fn body(request: &ModelRequest, quirks: &ChatQuirks) -> Vec<Bytes> {
    let mut pieces = Vec::with_capacity(request.messages.len() * 2 + 2);
    let has_system = !request.system.is_empty();
    pieces.push(head(request, quirks));
    let mut previous: Option<&Bytes> = None;
    for piece in &request.messages {
        if previous.is_some() || has_system {
            pieces.push(Bytes::from_static(b","));
        }
        let after_tool = previous.is_some_and(|previous| previous.ends_with(TOOL_END));
        if quirks.bridge_after_tool && after_tool && piece.starts_with(USER_START) {
            pieces.push(Bytes::from_static(BRIDGE));
            pieces.push(Bytes::from_static(b","));
        }
        pieces.push(piece.clone());
        previous = Some(piece);
    }
    pieces.push(tail(request, quirks));
    pieces
}

fn head(request: &ModelRequest, quirks: &ChatQuirks) -> Bytes {
    let schemas: usize = request.tools.iter().map(|tool| tool.parameters.get().len() + 256).sum();
    let mut out = Vec::with_capacity(request.system.len() * 17 / 16 + schemas + 256);
    out.extend_from_slice(b"{\"model\":");
    string(&mut out, &request.model);
    if request.has_tools() {
        out.extend_from_slice(b",\"tools\":[");
        for (position, tool) in request.tools.iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            out.extend_from_slice(b"{\"type\":\"function\",\"function\":{\"name\":");
            string(&mut out, &tool.name);
            out.extend_from_slice(b",\"description\":");
            string(&mut out, &tool.description);
            out.extend_from_slice(b",\"parameters\":");
            out.extend_from_slice(tool.parameters.get().as_bytes());
            out.extend_from_slice(b"}}");
        }
        for (position, tool) in request.options.provider_tools.iter().enumerate() {
            if position > 0 || !request.tools.is_empty() {
                out.push(b',');
            }
            out.extend_from_slice(tool.get().as_bytes());
        }
        out.push(b']');
    }
    out.extend_from_slice(b",\"messages\":[");
    if !request.system.is_empty() {
        let developer = match quirks.system_role {
            SystemRole::ByModel => request.reasoning_model,
            SystemRole::System => false,
            SystemRole::Developer => true,
        };
        out.extend_from_slice(b"{\"role\":");
        string(&mut out, if developer { "developer" } else { "system" });
        out.extend_from_slice(b",\"content\":");
        string(&mut out, &request.system);
        out.push(b'}');
    }
    Bytes::from(out)
}

fn tail(request: &ModelRequest, quirks: &ChatQuirks) -> Bytes {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(b"],\"stream\":true");
    if quirks.stream_options {
        out.extend_from_slice(b",\"stream_options\":{\"include_usage\":true}");
    }
    let by_completion = match quirks.max_tokens {
        MaxTokensField::ByModel => request.reasoning_model,
        MaxTokensField::MaxTokens => false,
        MaxTokensField::MaxCompletionTokens => true,
    };
    out.extend_from_slice(if by_completion {
        b",\"max_completion_tokens\":"
    } else {
        b",\"max_tokens\":"
    });
    out.extend_from_slice(request.max_tokens.to_string().as_bytes());
    if let Some(temperature) = request.temperature.filter(|value| value.is_finite()) {
        out.extend_from_slice(b",\"temperature\":");
        out.extend_from_slice(temperature.to_string().as_bytes());
    }
    if let Some(thinking) = &request.thinking {
        reasoning(&mut out, thinking, request.reasoning_model, quirks.reasoning);
    }
    options::write(&mut out, request, quirks);
    out.push(b'}');
    Bytes::from(out)
}

fn reasoning(
    out: &mut Vec<u8>,
    thinking: &ThinkingConfig,
    reasoning_model: bool,
    field: ReasoningField,
) {
    let off = thinking.mode == Some(ThinkingMode::Disabled)
        || thinking.effort == Some(ThinkingEffort::None);
    let effort = effort_of(thinking);
    match field {
        ReasoningField::Effort => {
            // Without an effort nothing is sent to this API; not every model supports "none".
            if let Some(effort) = effort.filter(|_| reasoning_model) {
                out.extend_from_slice(b",\"reasoning_effort\":");
                string(out, effort);
            }
        }
        ReasoningField::Object => {
            out.extend_from_slice(b",\"reasoning\":{");
            match (off, thinking.effort, thinking.budget_tokens) {
                (true, _, _) => out.extend_from_slice(b"\"enabled\":false"),
                (false, Some(effort), _) => {
                    out.extend_from_slice(b"\"effort\":");
                    string(out, effort.as_str());
                }
                (false, None, Some(tokens)) => {
                    out.extend_from_slice(b"\"max_tokens\":");
                    out.extend_from_slice(tokens.to_string().as_bytes());
                }
                (false, None, None) => out.extend_from_slice(b"\"enabled\":true"),
            }
            out.push(b'}');
        }
        ReasoningField::ThinkingType => {
            out.extend_from_slice(b",\"thinking\":{\"type\":");
            string(out, if off { "disabled" } else { "enabled" });
            out.push(b'}');
        }
    }
}
