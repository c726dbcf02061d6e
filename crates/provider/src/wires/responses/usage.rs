//! Usage of a response, normalised by the table of docs/rules/wire/usage.md#usage-mapping.
//!
//! It must never count a token twice: cached and written tokens are parts of the input, reasoning of the output.

use serde::Deserialize;

use crate::ReportedUsage;
use crate::json::Count;

#[derive(Debug, Default, Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    total_tokens: Count,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Count,
}

/// Reads a `usage` object; `None` where it has no count.
pub(super) fn read(raw: &str) -> Option<ReportedUsage> {
    let usage: Usage = serde_json::from_str(raw).ok()?;
    if usage.input_tokens.0.is_none() && usage.output_tokens.0.is_none() {
        return None;
    }
    let prompt = usage.input_tokens.0.unwrap_or(0);
    let output = usage.output_tokens.0.unwrap_or(0);
    let details = usage.input_tokens_details.unwrap_or_default();
    let cache_write = details.cache_write_tokens.0.unwrap_or(0);
    let mut cached = details.cached_tokens.0.unwrap_or(0);
    // OpenRouter's cached count may include tokens that were just written.
    if cache_write > 0 && cached.saturating_add(cache_write) > prompt {
        cached = cached.saturating_sub(cache_write);
    }
    let reasoning = usage.output_tokens_details.and_then(|details| details.reasoning_tokens.0);
    // Some servers count reasoning beside the answer, not as a part of it, as their total shows.
    let beside = reasoning.unwrap_or(0);
    let is_beside = beside > 0
        && usage.total_tokens.0 == Some(prompt.saturating_add(output).saturating_add(beside));
    Some(ReportedUsage {
        cache_write_hour: 0,
        input: prompt.saturating_sub(cached).saturating_sub(cache_write),
        output: if is_beside { output.saturating_add(beside) } else { output },
        cached,
        cache_write,
        reasoning,
    })
}
