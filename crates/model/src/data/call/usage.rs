//! Token counts: the broker interface's `TokenUsage` and its one sum.
//!
//! Input is what was neither read from nor written to the cache; reasoning is a part of output (docs/rules/abort-usage.md#usage).

use serde::{Deserialize, Serialize};

/// Tokens of one call, or summed over the calls of a turn. `total = input + output + cached + cacheWrite`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Prompt tokens that were neither read from nor written to the cache.
    pub input_tokens: u64,
    /// Generated tokens, reasoning included.
    pub output_tokens: u64,
    /// Prompt tokens read from the provider's cache.
    pub cached_input_tokens: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write_tokens: u64,
    /// The part of `outputTokens` that was reasoning; 0 where the provider does not report it.
    pub reasoning_tokens: u64,
    /// The sum of the first four.
    pub total_tokens: u64,
}

impl TokenUsage {
    /// Counts with their total; saturating, because a provider's figures cannot be trusted.
    #[must_use]
    pub fn new(input: u64, output: u64, cached: u64, cache_write: u64, reasoning: u64) -> Self {
        Self {
            input_tokens: input,
            output_tokens: output,
            cached_input_tokens: cached,
            cache_write_tokens: cache_write,
            reasoning_tokens: reasoning,
            total_tokens: input
                .saturating_add(output)
                .saturating_add(cached)
                .saturating_add(cache_write),
        }
    }

    /// The tokens of the prompt: new, cached and written to the cache.
    #[must_use]
    pub fn prompt_tokens(&self) -> u64 {
        self.total_tokens.saturating_sub(self.output_tokens)
    }

    /// The sum of two counts, field by field.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::new(
            self.input_tokens.saturating_add(other.input_tokens),
            self.output_tokens.saturating_add(other.output_tokens),
            self.cached_input_tokens.saturating_add(other.cached_input_tokens),
            self.cache_write_tokens.saturating_add(other.cache_write_tokens),
            self.reasoning_tokens.saturating_add(other.reasoning_tokens),
        )
    }
}

/// How many tokens a context would send: the result of `countTokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TokenCount {
    /// Tokens of the whole prompt: the provider's count where `exact`, else the sum of the three estimates below.
    pub tokens: u64,
    /// Whether the provider counted.
    pub exact: bool,
    /// Estimate of the system prompt.
    pub system_tokens: u64,
    /// Estimate of the tools' names, descriptions and schemas.
    pub tool_tokens: u64,
    /// Estimate of the history and the current message, as the model would see them.
    pub message_tokens: u64,
    /// The model's window: prompt and answer together.
    pub window: u64,
    /// The maximum number of tokens of a prompt.
    pub prompt_limit: u64,
}
