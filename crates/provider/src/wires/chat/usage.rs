//! Usage of a chat completion, normalised by the table of docs/rules/wire/usage.md#usage-mapping.
//!
//! It must never count a token twice: cached and written tokens are parts of the prompt, reasoning of the answer.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::Count;
use crate::ReportedUsage;

#[derive(Debug, Default, Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    #[serde(default)]
    total_tokens: Count,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek.
    #[serde(default)]
    prompt_cache_hit_tokens: Count,
    /// Moonshot.
    #[serde(default)]
    cached_tokens: Count,
    /// Gateways in front of Anthropic.
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    cache_creation_input_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
struct Groq<'a> {
    usage: Option<Usage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Reads a `usage` object; `None` where it has no count.
pub(super) fn read(raw: &str) -> Option<ReportedUsage> {
    normalize(&serde_json::from_str(raw).ok()?)
}

/// Reads `x_groq`: its usage, and the error that stopped the stream early.
pub(super) fn read_groq(raw: &str) -> (Option<ReportedUsage>, Option<&RawValue>) {
    let groq = serde_json::from_str::<Groq<'_>>(raw).unwrap_or_default();
    (groq.usage.as_ref().and_then(normalize), groq.error)
}

fn normalize(usage: &Usage) -> Option<ReportedUsage> {
    let prompt = usage.prompt_tokens.0;
    let completion = usage.completion_tokens.0;
    if prompt.is_none() && completion.is_none() {
        return None;
    }
    let prompt = prompt.unwrap_or(0);
    let completion = completion.unwrap_or(0);
    let details = usage.prompt_tokens_details.as_ref();
    let first_reported =
        |counts: [Option<Count>; 4]| counts.into_iter().flatten().find_map(|count| count.0);
    let mut cached = first_reported([
        details.map(|details| details.cached_tokens),
        Some(usage.prompt_cache_hit_tokens),
        Some(usage.cached_tokens),
        Some(usage.cache_read_input_tokens),
    ])
    .unwrap_or(0);
    let cache_write = first_reported([
        details.map(|details| details.cache_write_tokens),
        Some(usage.cache_creation_input_tokens),
        None,
        None,
    ])
    .unwrap_or(0);
    // OpenRouter's cached count may include tokens that were just written.
    if cache_write > 0 && cached.saturating_add(cache_write) > prompt {
        cached = cached.saturating_sub(cache_write);
    }
    let reasoning =
        usage.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens.0);
    // xAI counts reasoning beside the answer, not as a part of it, as its total shows.
    let beside = reasoning.unwrap_or(0);
    let is_beside = beside > 0
        && usage.total_tokens.0 == Some(prompt.saturating_add(completion).saturating_add(beside));
    Some(ReportedUsage {
        input: prompt.saturating_sub(cached).saturating_sub(cache_write),
        output: if is_beside { completion.saturating_add(beside) } else { completion },
        cached,
        cache_write,
        cache_write_hour: 0,
        reasoning,
    })
}
