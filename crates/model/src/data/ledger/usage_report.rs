//! The usage of turns, grouped: the key of the groups, the filter of the turns, and the sums.
//!
//! It must never turn an unknown price into 0.

use serde::{Deserialize, Serialize};

use crate::{Limit, TokenUsage};

/// The key by which usage is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum UsageBy {
    /// The turn, which is one request of the host: its single calls are in `TurnRow.attempts`.
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

/// The filter of a usage report.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageFilter {
    /// The key of the groups.
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
    /// Only those that began at this time or later: Unix milliseconds.
    #[serde(default)]
    pub since: Option<i64>,
    /// Only those that began before this time: Unix milliseconds.
    #[serde(default)]
    pub until: Option<i64>,
    /// The `next` of the previous page: a key.
    #[serde(default)]
    pub after: Option<String>,
    /// The limit of rows: 1 to 1,000. Default 100.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<u32>"))]
    pub limit: Limit,
}

/// The usage of one group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    /// The turn's id, the session's label, the agent, `provider/model`, or the day as `2026-01-31`.
    pub key: String,
    /// The number of turns, without compactions.
    pub turns: u64,
    /// Their usage.
    pub usage: TokenUsage,
    /// How many of them have a partly estimated usage.
    pub estimated_turns: u64,
    /// US dollars of the turns with a known price; null where there are none.
    pub cost: Option<f64>,
    /// The number of turns with an unknown price: their cost is not in `cost`.
    pub unpriced_turns: u64,
    /// The number of compactions.
    pub compactions: u64,
    /// Their usage, which is not in `usage`.
    pub compaction_usage: TokenUsage,
    /// US dollars of those with a known price, which are not in `cost`; null where there are none.
    pub compaction_cost: Option<f64>,
}
