//! What turns have used, added up: by what, of which turns, and the sums.
//!
//! It must never make an unknown price 0.

use serde::{Deserialize, Serialize};

use crate::{Limit, TokenUsage};

/// What usage is added up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum UsageBy {
    /// The turn, which is one request of the host's: its calls one by one are in `TurnRow.attempts`.
    Turn,
    /// The session the turn was run in.
    Session,
    /// The agent of the session: see `SessionRow.agentId`.
    Agent,
    /// The provider and its model.
    Model,
    /// The day the turn began, in UTC.
    Day,
}

/// Which usage.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageFilter {
    /// What it is added up by.
    pub by: UsageBy,
    /// Only the turns of a session.
    #[serde(default)]
    pub session_label: Option<String>,
    /// Only those of an agent's sessions.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// Only those of a provider.
    #[serde(default)]
    pub provider: Option<String>,
    /// Only those of a model.
    #[serde(default)]
    pub model: Option<String>,
    /// Only those that began then or later: Unix milliseconds.
    #[serde(default)]
    pub since: Option<i64>,
    /// Only those that began before: Unix milliseconds.
    #[serde(default)]
    pub until: Option<i64>,
    /// The `next` of the page before: a key.
    #[serde(default)]
    pub after: Option<String>,
    /// Rows at most: 1 to 1,000. Default 100.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<u32>"))]
    pub limit: Limit,
}

/// What was used under one key.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    /// The turn's id, the session's label, the agent, `provider/model`, or the day as `2026-01-31`.
    pub key: String,
    /// The turns, without compactions.
    pub turns: u64,
    /// What they used.
    pub usage: TokenUsage,
    /// How many of them estimated a part of it.
    pub estimated_turns: u64,
    /// US dollars of the turns whose price is known; null where none is.
    pub cost: Option<f64>,
    /// The turns whose price is unknown: their cost is not in `cost`.
    pub unpriced_turns: u64,
    /// The compactions.
    pub compactions: u64,
    /// What they used, which is not in `usage`.
    pub compaction_usage: TokenUsage,
    /// US dollars of those whose price is known, which are not in `cost`; null where none is.
    pub compaction_cost: Option<f64>,
}
