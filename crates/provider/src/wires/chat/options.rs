//! The request options of a context in the fields of Chat Completions, and those that a server does not support.
//!
//! Each option is written, or reported in [`unsupported`]; it must never be dropped silently.

use super::effort::effort_of;
use super::encode::string;
use super::quirks::{ChatQuirks, ReasoningField, UserField};
use crate::ModelRequest;
use model::{CacheTtl, ResponseFormat, RunWarning, ThinkingMode, ToolChoice};

/// The only name of `requestMetadata` that is sent. OpenAI accepts others only with stored answers, and these are not stored.
const USER_ID: &str = "user_id";

/// The options, each with a comma before it.
pub(super) fn write(out: &mut Vec<u8>, request: &ModelRequest, quirks: &ChatQuirks) {
    let options = &request.options;
    if request.has_tools() {
        if let Some(choice) = &options.tool_choice {
            out.extend_from_slice(b",\"tool_choice\":");
            match choice {
                ToolChoice::Auto => out.extend_from_slice(b"\"auto\""),
                ToolChoice::None => out.extend_from_slice(b"\"none\""),
                ToolChoice::Required => out.extend_from_slice(b"\"required\""),
                ToolChoice::Tool { name } => {
                    out.extend_from_slice(b"{\"type\":\"function\",\"function\":{\"name\":");
                    string(out, name);
                    out.extend_from_slice(b"}}");
                }
            }
        }
        if let Some(parallel) = options.parallel_tool_calls {
            out.extend_from_slice(b",\"parallel_tool_calls\":");
            out.extend_from_slice(if parallel { b"true" } else { b"false" });
        }
    }
    if let Some(format) = &options.response_format {
        write_format(out, format);
    }
    let stops = stops(request, quirks);
    for (position, stop) in stops.iter().enumerate() {
        out.extend_from_slice(if position == 0 { b",\"stop\":[" } else { b"," });
        string(out, stop);
    }
    if !stops.is_empty() {
        out.push(b']');
    }
    if let Some(user) = options.metadata.get(USER_ID) {
        out.extend_from_slice(match quirks.user {
            UserField::SafetyIdentifier => b",\"safety_identifier\":",
            UserField::User => b",\"user\":",
        });
        string(out, user);
    }
    if let Some(key) = request.cache_key.as_ref().filter(|_| quirks.prompt_cache_key) {
        out.extend_from_slice(b",\"prompt_cache_key\":");
        string(out, key);
    }
}

fn write_format(out: &mut Vec<u8>, format: &ResponseFormat) {
    out.extend_from_slice(b",\"response_format\":{\"type\":");
    match format {
        ResponseFormat::JsonObject => out.extend_from_slice(b"\"json_object\""),
        ResponseFormat::JsonSchema { name, schema, strict } => {
            out.extend_from_slice(b"\"json_schema\",\"json_schema\":{\"name\":");
            string(out, name.as_deref().unwrap_or("answer"));
            out.extend_from_slice(b",\"strict\":");
            out.extend_from_slice(if strict.unwrap_or(true) { b"true" } else { b"false" });
            out.extend_from_slice(b",\"schema\":");
            out.extend_from_slice(schema.get().as_bytes());
            out.push(b'}');
        }
    }
    out.push(b'}');
}

/// The stop sequences that the server supports.
fn stops<'a>(request: &'a ModelRequest, quirks: &ChatQuirks) -> &'a [String] {
    let all = request.options.stop_sequences.as_slice();
    match quirks.most_stops {
        None => all,
        Some(_) if request.reasoning_model => &[],
        Some(most) => all.get(..most).unwrap_or(all),
    }
}

/// The options that the server does not support.
pub(super) fn unsupported(request: &ModelRequest, quirks: &ChatQuirks) -> Vec<RunWarning> {
    let options = &request.options;
    let mut warnings = Vec::new();
    let mut warn = |field: &str, why: &str| warnings.push(RunWarning::unsupported(field, why));
    if request.forces_tool && !request.has_tools() {
        warn("toolChoice", "there is no tool to choose");
    }
    if stops(request, quirks).len() < options.stop_sequences.len() {
        warn("stopSequences", "OpenAI takes at most four, and none for a reasoning model");
    }
    if options.prompt_cache.key.is_some() && !quirks.prompt_cache_key {
        warn("promptCache.key", "this server is not known to take one; see `promptCacheKey`");
    }
    if options.prompt_cache.ttl == Some(CacheTtl::Hour) {
        warn("promptCache.ttl", "Chat Completions does not let a request choose how long");
    }
    for name in options.metadata.keys().filter(|name| *name != USER_ID) {
        warn(&format!("requestMetadata.{name}"), "Chat Completions takes `user_id` only");
    }
    if let (ReasoningField::Effort, Some(thinking)) = (quirks.reasoning, &request.thinking) {
        let written = request.reasoning_model && effort_of(thinking).is_some();
        let asks = effort_of(thinking).is_some_and(|effort| effort != "none")
            || matches!(thinking.mode, Some(ThinkingMode::Enabled | ThinkingMode::Adaptive));
        if asks && !written {
            warn("thinkingConfig", "Chat Completions takes an `effort`, of a reasoning model only");
        }
    }
    warnings
}

#[cfg(test)]
mod tests;
