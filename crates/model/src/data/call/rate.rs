//! The rate limits that a provider reports with each answer, and what a host can see of them.
//!
//! Neutral of the headers that it came in. It must never hold a key.

use serde::Serialize;

/// One limit, as an answer's headers report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// The most of it; `None` where it is not reported.
    pub limit: Option<u64>,
    /// What is left of it.
    pub remaining: u64,
    /// In so many milliseconds all of it is back; `None` where it is not reported, or nonsense.
    pub reset_ms: Option<u64>,
    /// The precision of the reported reset, in milliseconds.
    pub slack_ms: u64,
}

/// The limits that an answer reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Requests.
    pub requests: Option<RateLimit>,
    /// Tokens, prompt and answer.
    pub tokens: Option<RateLimit>,
    /// Tokens of prompts.
    pub input: Option<RateLimit>,
    /// Tokens of answers.
    pub output: Option<RateLimit>,
}

/// A rate limit as it stands by the last answers and what was sent since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct RateLimitState {
    /// The most of it.
    pub limit: u64,
    /// What is left, with the calls under way counted at their estimates.
    pub remaining: u64,
    /// In so many milliseconds all of it is back.
    pub full_in_ms: u64,
}

/// What is known of the rate limits of a model asked with one auth profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct LimitState {
    /// The provider.
    pub provider: String,
    /// The auth profile; absent for a server without keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<String>,
    /// The model.
    pub model: String,
    /// Requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<RateLimitState>,
    /// Tokens, prompt and answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<RateLimitState>,
    /// Tokens of prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<RateLimitState>,
    /// Tokens of answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<RateLimitState>,
    /// Calls that were sent and have not ended.
    pub in_flight: u32,
    /// Calls that are held back.
    pub waiting: u32,
    /// Milliseconds in which none goes, after a refusal for the rate.
    pub closed_for_ms: u64,
}
