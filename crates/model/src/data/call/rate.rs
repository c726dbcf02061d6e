//! The rate limits that a provider reports with each answer, and the state that a host reads.
//!
//! Independent of the headers that carried them. It must never hold a key.

use serde::Serialize;

/// One limit, as an answer's headers report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// The maximum; `None` where it is not reported.
    pub limit: Option<u64>,
    /// What remains.
    pub remaining: u64,
    /// Milliseconds until the limit is full again; `None` where it is not reported, or unusable.
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

/// A rate limit, computed from the last answers and the calls sent since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct RateLimitState {
    /// The maximum.
    pub limit: u64,
    /// What remains, with the calls under way counted at their estimates.
    pub remaining: u64,
    /// Milliseconds until the limit is full again.
    pub full_in_ms: u64,
}

/// The known rate limits of a model under one auth profile.
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
    /// Calls that wait.
    pub waiting: u32,
    /// Milliseconds in which no call is sent, after a refusal for the rate.
    pub closed_for_ms: u64,
}
