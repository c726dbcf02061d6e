//! The request options of a context in Anthropic's fields, and those that the API does not support.
//!
//! Each option is written, or reported in [`unsupported`]; it must never be dropped silently.

use crate::ModelRequest;
use crate::json::write_string;
use model::{
    CacheTtl, ResponseFormat, RunWarning, ThinkingConfig, ThinkingEffort, ThinkingMode, ToolChoice,
};

/// The only name of `requestMetadata` that the API accepts.
const USER_ID: &str = "user_id";

/// A prompt-cache breakpoint as a further field of a JSON object; `None` with the cache off.
///
/// It is on by default: a turn sends its conversation again with each call. A request may have four; three are used: the
/// last tool, the system prompt, the last block of the conversation (docs/rules/wire/anthropic.md#cache-breakpoints).
pub(super) fn breakpoint(request: &ModelRequest) -> Option<&'static [u8]> {
    match request.options.prompt_cache.ttl.unwrap_or_default() {
        CacheTtl::Off => None,
        CacheTtl::Minutes => Some(b",\"cache_control\":{\"type\":\"ephemeral\"}"),
        CacheTtl::Hour => Some(b",\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}"),
    }
}

/// Whether the request has thinking on. The API refuses it beside a choice that forces a call.
pub(super) fn thinks(request: &ModelRequest) -> bool {
    !request.forces_tool && request.thinking.as_ref().is_some_and(enables_thinking)
}

fn enables_thinking(config: &ThinkingConfig) -> bool {
    match config.mode {
        Some(ThinkingMode::Enabled | ThinkingMode::Adaptive) => true,
        Some(ThinkingMode::Disabled) => false,
        None => config.budget_tokens.is_some(),
    }
}

/// Whether thinking must be switched off explicitly.
pub(super) fn is_off(config: &ThinkingConfig) -> bool {
    match config.mode {
        Some(mode) => mode == ThinkingMode::Disabled,
        None => config.budget_tokens.is_none() && config.effort == Some(ThinkingEffort::None),
    }
}

/// `output_config`, with a comma after it: the effort and the format of the answer.
pub(super) fn write_output_config(out: &mut Vec<u8>, request: &ModelRequest) {
    let effort = request.thinking.as_ref().and_then(|thinking| thinking.effort);
    let effort = effort.and_then(|effort| match effort {
        ThinkingEffort::None => None,
        // The API's lowest level is `low`.
        ThinkingEffort::Minimal | ThinkingEffort::Low => Some("low"),
        ThinkingEffort::Medium => Some("medium"),
        ThinkingEffort::High => Some("high"),
        ThinkingEffort::Xhigh => Some("xhigh"),
        ThinkingEffort::Max => Some("max"),
    });
    let schema = match &request.options.response_format {
        Some(ResponseFormat::JsonSchema { schema, .. }) => Some(schema),
        Some(ResponseFormat::JsonObject) | None => None,
    };
    if effort.is_none() && schema.is_none() {
        return;
    }
    out.extend_from_slice(b"\"output_config\":{");
    if let Some(effort) = effort {
        out.extend_from_slice(b"\"effort\":");
        write_string(out, effort);
    }
    if let Some(schema) = schema {
        if effort.is_some() {
            out.push(b',');
        }
        out.extend_from_slice(b"\"format\":{\"type\":\"json_schema\",\"schema\":");
        out.extend_from_slice(schema.get().as_bytes());
        out.push(b'}');
    }
    out.extend_from_slice(b"},");
}

/// `tool_choice`, which the API accepts only beside tools.
pub(super) fn write_tool_choice(out: &mut Vec<u8>, request: &ModelRequest) {
    let one_call = request.options.parallel_tool_calls == Some(false);
    let choice = request.options.tool_choice.as_ref();
    if !request.has_tools() || (choice.is_none() && !one_call) {
        return;
    }
    out.extend_from_slice(b",\"tool_choice\":{\"type\":");
    let calls = match choice.unwrap_or(&ToolChoice::Auto) {
        ToolChoice::Auto => {
            out.extend_from_slice(b"\"auto\"");
            true
        }
        ToolChoice::None => {
            out.extend_from_slice(b"\"none\"");
            false
        }
        ToolChoice::Required => {
            out.extend_from_slice(b"\"any\"");
            true
        }
        ToolChoice::Tool { name } => {
            out.extend_from_slice(b"\"tool\",\"name\":");
            write_string(out, name);
            true
        }
    };
    if one_call && calls {
        out.extend_from_slice(b",\"disable_parallel_tool_use\":true");
    }
    out.push(b'}');
}

/// `stop_sequences`.
pub(super) fn write_stops(out: &mut Vec<u8>, request: &ModelRequest) {
    for (position, stop) in request.options.stop_sequences.iter().enumerate() {
        out.extend_from_slice(if position == 0 { b",\"stop_sequences\":[" } else { b"," });
        write_string(out, stop);
    }
    if !request.options.stop_sequences.is_empty() {
        out.push(b']');
    }
}

/// `requestMetadata`.
pub(super) fn write_user(out: &mut Vec<u8>, request: &ModelRequest) {
    if let Some(user) = request.options.metadata.get(USER_ID) {
        out.extend_from_slice(b",\"metadata\":{\"user_id\":");
        write_string(out, user);
        out.push(b'}');
    }
}

/// The options that the API does not support.
pub(super) fn unsupported(request: &ModelRequest) -> Vec<RunWarning> {
    let options = &request.options;
    let mut warnings = Vec::new();
    let mut warn = |field: &str, why: &str| warnings.push(RunWarning::unsupported(field, why));
    if matches!(options.response_format, Some(ResponseFormat::JsonObject)) {
        warn("responseFormat", "Anthropic Messages takes a `json_schema` only");
    }
    if request.forces_tool && !request.has_tools() {
        warn("toolChoice", "there is no tool to choose");
    }
    if request.forces_tool && request.thinking.as_ref().is_some_and(enables_thinking) {
        warn("thinkingConfig", "Anthropic Messages refuses it where `toolChoice` forces a call");
    }
    if request.temperature.is_some() && thinks(request) {
        warn("temperature", "Anthropic Messages takes none with thinking on");
    }
    if options.prompt_cache.key.is_some() {
        warn("promptCache.key", "Anthropic Messages finds a prefix by its content");
    }
    for name in options.metadata.keys().filter(|name| *name != USER_ID) {
        warn(&format!("requestMetadata.{name}"), "Anthropic Messages takes `user_id` only");
    }
    warnings
}

#[cfg(test)]
mod tests;
