//! Usage of a response, normalised by the table of docs/rules/wire/usage.md#usage-mapping.
//!
//! It must never count a token twice: cached tokens are a part of the prompt, and thoughts are counted beside the answer.

use serde::Deserialize;

use crate::ReportedUsage;
use crate::json::Count;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    #[serde(default)]
    prompt_token_count: Count,
    #[serde(default)]
    cached_content_token_count: Count,
    #[serde(default)]
    tool_use_prompt_token_count: Count,
    #[serde(default)]
    candidates_token_count: Count,
    #[serde(default)]
    thoughts_token_count: Count,
}

/// Reads `usageMetadata`; `None` where it has no count, as before the last chunk of some servers.
pub(super) fn read(raw: &str) -> Option<ReportedUsage> {
    let usage: Usage = serde_json::from_str(raw).ok()?;
    let prompt = usage.prompt_token_count.0;
    let answer = usage.candidates_token_count.0;
    let thoughts = usage.thoughts_token_count.0;
    if prompt.is_none() && answer.is_none() && thoughts.is_none() {
        return None;
    }
    let cached = usage.cached_content_token_count.0.unwrap_or(0);
    Some(ReportedUsage {
        cache_write_hour: 0,
        input: prompt
            .unwrap_or(0)
            .saturating_sub(cached)
            .saturating_add(usage.tool_use_prompt_token_count.0.unwrap_or(0)),
        output: answer.unwrap_or(0).saturating_add(thoughts.unwrap_or(0)),
        cached,
        cache_write: 0,
        reasoning: thoughts,
    })
}
