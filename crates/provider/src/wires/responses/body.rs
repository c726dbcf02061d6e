//! The body of one request: model, instructions, tools and input first, the settings of this call last.
//!
//! In this order the bytes of call n up to its last message begin call n+1 too
//! (docs/rules/compaction.md#prompt-cache-stability). It must never copy the conversation.

use bytes::Bytes;

use crate::ModelRequest;
use crate::json::write_string;
use model::{ResponseFormat, ThinkingConfig, ThinkingEffort, ThinkingMode, ToolChoice};

/// The smallest cap that the API accepts.
const LEAST_TOKENS: u64 = 16;
/// The default name of an answer's format.
const FORMAT_NAME: &str = "answer";
/// The entry of `requestMetadata` with the host's user; the API has its own field for it.
const USER_ID: &str = "user_id";

/// The body in pieces.
pub(super) fn body(request: &ModelRequest, takes_cache_key: bool) -> Vec<Bytes> {
    request.framed(head(request), tail(request, takes_cache_key))
}

/// The body of a count: only the prompt.
pub(super) fn count(request: &ModelRequest) -> Vec<Bytes> {
    request.framed(head(request), Bytes::from_static(b"]}"))
}

fn head(request: &ModelRequest) -> Bytes {
    let schemas: usize = request.tools.iter().map(|tool| tool.parameters.get().len() + 256).sum();
    let mut out = Vec::with_capacity(request.system.len() * 17 / 16 + schemas + 256);
    raw(&mut out, "{\"model\":");
    write_string(&mut out, &request.model);
    if !request.system.is_empty() {
        raw(&mut out, ",\"instructions\":");
        write_string(&mut out, &request.system);
    }
    if request.has_tools() {
        raw(&mut out, ",\"tools\":[");
        let mut first = true;
        for tool in request.tools.iter() {
            comma(&mut out, &mut first);
            raw(&mut out, "{\"type\":\"function\",\"name\":");
            write_string(&mut out, &tool.name);
            raw(&mut out, ",\"description\":");
            write_string(&mut out, &tool.description);
            raw(&mut out, ",\"parameters\":");
            raw(&mut out, tool.parameters.get());
            // Strict is the default of the API, and rewrites every schema that it does not refuse.
            raw(&mut out, ",\"strict\":false}");
        }
        for tool in &request.options.provider_tools {
            comma(&mut out, &mut first);
            raw(&mut out, tool.get());
        }
        out.push(b']');
    }
    raw(&mut out, ",\"input\":[");
    Bytes::from(out)
}

fn tail(request: &ModelRequest, takes_cache_key: bool) -> Bytes {
    let mut out = Vec::with_capacity(512);
    // The API stores by default; only the ledger must store the conversation.
    raw(&mut out, "],\"stream\":true,\"store\":false");
    if request.reasoning_model {
        raw(&mut out, ",\"include\":[\"reasoning.encrypted_content\"]");
    }
    raw(&mut out, ",\"max_output_tokens\":");
    raw(&mut out, &request.max_tokens.max(LEAST_TOKENS).to_string());
    if let Some(temperature) = request.temperature.filter(|value| value.is_finite()) {
        raw(&mut out, ",\"temperature\":");
        raw(&mut out, &temperature.to_string());
    }
    if let Some(thinking) = request.thinking.as_ref().filter(|_| request.reasoning_model) {
        reasoning(&mut out, thinking);
    }
    options(&mut out, request, takes_cache_key);
    out.push(b'}');
    Bytes::from(out)
}

/// The reasoning fields: with thinking on, a summary of it is requested too.
fn reasoning(out: &mut Vec<u8>, thinking: &ThinkingConfig) {
    let off = thinking.mode == Some(ThinkingMode::Disabled)
        || thinking.effort == Some(ThinkingEffort::None);
    if off {
        raw(out, ",\"reasoning\":{\"effort\":\"none\"}");
        return;
    }
    raw(out, ",\"reasoning\":{");
    if let Some(effort) = thinking
        .effort
        .or(thinking.budget_tokens.map(ThinkingEffort::of_budget))
        .map(ThinkingEffort::as_str)
    {
        raw(out, "\"effort\":");
        write_string(out, effort);
        out.push(b',');
    }
    raw(out, "\"summary\":\"auto\"}");
}

/// The request options beside the conversation. The API has no stop sequences.
fn options(out: &mut Vec<u8>, request: &ModelRequest, takes_cache_key: bool) {
    let (options, has_tools) = (&request.options, request.has_tools());
    if let Some(choice) = options.tool_choice.as_ref().filter(|_| has_tools) {
        raw(out, ",\"tool_choice\":");
        match choice {
            ToolChoice::Auto => raw(out, "\"auto\""),
            ToolChoice::None => raw(out, "\"none\""),
            ToolChoice::Required => raw(out, "\"required\""),
            ToolChoice::Tool { name } => {
                raw(out, "{\"type\":\"function\",\"name\":");
                write_string(out, name);
                out.push(b'}');
            }
        }
    }
    if let Some(parallel) = options.parallel_tool_calls.filter(|_| has_tools) {
        raw(out, ",\"parallel_tool_calls\":");
        raw(out, if parallel { "true" } else { "false" });
    }
    match &options.response_format {
        None => {}
        Some(ResponseFormat::JsonObject) => {
            raw(out, ",\"text\":{\"format\":{\"type\":\"json_object\"}}");
        }
        Some(ResponseFormat::JsonSchema { name, schema, strict }) => {
            raw(out, ",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":");
            write_string(out, name.as_deref().unwrap_or(FORMAT_NAME));
            raw(out, ",\"schema\":");
            raw(out, schema.get());
            raw(out, ",\"strict\":");
            raw(out, if strict.unwrap_or(true) { "true}}" } else { "false}}" });
        }
    }
    if let Some(key) = request.cache_key.as_ref().filter(|_| takes_cache_key) {
        raw(out, ",\"prompt_cache_key\":");
        write_string(out, key);
    }
    if let Some(user) = options.metadata.get(USER_ID) {
        raw(out, ",\"safety_identifier\":");
        write_string(out, user);
    }
    let mut first = true;
    for (name, value) in options.metadata.iter().filter(|(name, _)| *name != USER_ID) {
        raw(out, if first { ",\"metadata\":{" } else { "," });
        first = false;
        write_string(out, name);
        out.push(b':');
        write_string(out, value);
    }
    if !first {
        out.push(b'}');
    }
}

fn raw(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn comma(out: &mut Vec<u8>, first: &mut bool) {
    if !std::mem::take(first) {
        out.push(b',');
    }
}
