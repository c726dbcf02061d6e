//! Reads what a context asks of the provider: tools and request options.
//!
//! It must never accept a name that some API refuses.

use std::collections::{BTreeMap, HashSet};

use serde_json::value::RawValue;

use crate::data::input::field::{
    InputError, Parsed, missing, one_line, optional, typed, usable_name, value,
};
use crate::data::input::raw_context::RawContext;
use crate::{PromptCache, ReplayClass, RequestOptions, ResponseFormat, ToolDefinition};

/// A result that is cut shorter has little more than the mark of the cut.
const LEAST_RESULT_CHARS: u64 = 200;

pub(super) fn parse_tools(raw: Option<&RawValue>) -> Parsed<Vec<ToolDefinition>> {
    let raw = raw.ok_or_else(|| missing("tools"))?;
    let tools: Vec<ToolDefinition> = typed("tools", raw)?;
    let mut names = HashSet::with_capacity(tools.len());
    for (index, tool) in tools.iter().enumerate() {
        let path = format!("tools[{index}].name");
        if !usable_name(&tool.name) {
            return Err(InputError::new(
                path,
                format!("`{}` is not a tool name; use 1 to 64 of A-Z a-z 0-9 _ -", tool.name),
            ));
        }
        if !names.insert(tool.name.as_str()) {
            return Err(InputError::new(path, format!("`{}` is there twice", tool.name)));
        }
        if !tool.parameters.get().starts_with('{') {
            return Err(InputError::new(
                format!("tools[{index}].parameters"),
                "is not a JSON Schema object",
            ));
        }
        if tool.timeout_ms == Some(0) {
            return Err(InputError::new(format!("tools[{index}].timeoutMs"), "`0` leaves no time"));
        }
        if tool.max_result_chars.is_some_and(|chars| chars < LEAST_RESULT_CHARS) {
            return Err(InputError::new(
                format!("tools[{index}].maxResultChars"),
                format!("leaves nothing to read; pass at least {LEAST_RESULT_CHARS}"),
            ));
        }
        if tool.retries > 0
            && matches!(tool.replay, ReplayClass::Unsafe | ReplayClass::Reconcilable)
        {
            return Err(InputError::new(
                format!("tools[{index}].retries"),
                "needs `replay: 'pure'` or `'idempotent'`, because a retry repeats the side effect",
            ));
        }
    }
    Ok(tools)
}

/// The most repairs of an answer.
const MAX_OUTPUT_RETRIES: u32 = 10;

fn output_retries(raw: Option<&RawValue>) -> Parsed<Option<u32>> {
    let retries: Option<u32> = optional("outputRetries", raw)?;
    match retries {
        Some(retries) if retries > MAX_OUTPUT_RETRIES => Err(InputError::new(
            "outputRetries",
            format!("`{retries}` is too many; pass 0 to {MAX_OUTPUT_RETRIES}"),
        )),
        retries => Ok(retries),
    }
}

pub(super) fn request_options(raw: &RawContext<'_>) -> Parsed<RequestOptions> {
    let response_format = optional("responseFormat", raw.response_format)?;
    if let Some(ResponseFormat::JsonSchema { name, schema, .. }) = &response_format {
        if name.as_deref().is_some_and(|name| !usable_name(name)) {
            let message = "is not a name; use 1 to 64 of A-Z a-z 0-9 _ -";
            return Err(InputError::new("responseFormat.name", message));
        }
        if !schema.get().starts_with('{') {
            return Err(InputError::new("responseFormat.schema", "is not a JSON Schema object"));
        }
    }
    let provider_tools: Vec<Box<RawValue>> =
        optional("providerTools", raw.provider_tools)?.unwrap_or_default();
    for (index, tool) in provider_tools.iter().enumerate() {
        let path = format!("providerTools[{index}]");
        if !tool.get().starts_with('{') {
            return Err(InputError::new(path, "is not an object as the provider's API has it"));
        }
        value(&path, tool)?;
    }
    let metadata: BTreeMap<String, String> =
        optional("requestMetadata", raw.request_metadata)?.unwrap_or_default();
    for (name, text) in &metadata {
        one_line("requestMetadata", name.clone())?;
        one_line(&format!("requestMetadata.{name}"), text.clone())?;
    }
    let prompt_cache: PromptCache = optional("promptCache", raw.prompt_cache)?.unwrap_or_default();
    if let Some(key) = &prompt_cache.key {
        one_line("promptCache.key", key.clone())?;
    }
    let stop_sequences: Vec<String> =
        optional("stopSequences", raw.stop_sequences)?.unwrap_or_default();
    if let Some(index) = stop_sequences.iter().position(String::is_empty) {
        return Err(InputError::new(format!("stopSequences[{index}]"), "is empty; leave it out"));
    }
    Ok(RequestOptions {
        tool_choice: optional("toolChoice", raw.tool_choice)?,
        parallel_tool_calls: optional("parallelToolCalls", raw.parallel_tool_calls)?,
        response_format,
        output_retries: output_retries(raw.output_retries)?,
        stop_sequences,
        prompt_cache,
        metadata,
        headers: optional("headers", raw.headers)?.unwrap_or_default(),
        provider_tools,
    })
}
