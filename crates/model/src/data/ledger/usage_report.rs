//! The usage of turns, grouped: the key of the groups, the filter of the turns, and the sums.
//!
//! It must never turn an unknown price into 0.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Limit, MetadataFilter, MetadataKey, TokenUsage};

/// The key by which usage is grouped.
/// `turn` is one request of the host: its single calls are in `TurnRow.attempts`. `session` is the session the turn was run in,
/// `agent` that session's agent (`SessionRow.agentId`), `model` the provider and its model, `day` the day the turn began, in UTC.
/// `metadata.userId` is the value of the key `userId` in the metadata of the turn; turns without the key are not counted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[cfg_attr(
    feature = "testing",
    ts(type = "'turn' | 'session' | 'agent' | 'model' | 'day' | `metadata.${string}`")
)]
pub enum UsageBy {
    /// The turn.
    Turn,
    /// The session the turn was run in.
    Session,
    /// The agent of the session.
    Agent,
    /// The provider and its model.
    Model,
    /// The day the turn began, in UTC.
    Day,
    /// The value of a key of the turn's metadata.
    Metadata(MetadataKey),
}

const KEYS: &[&str] = &["turn", "session", "agent", "model", "day", "metadata.<key>"];

impl<'de> Deserialize<'de> for UsageBy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(match name.as_str() {
            "turn" => Self::Turn,
            "session" => Self::Session,
            "agent" => Self::Agent,
            "model" => Self::Model,
            "day" => Self::Day,
            other => {
                match other.strip_prefix("metadata.") {
                    Some(key) => Self::Metadata(MetadataKey::parse(key).map_err(|why| {
                        D::Error::custom(format!("what follows `metadata.` {why}"))
                    })?),
                    None => {
                        return Err(D::Error::unknown_variant(other, KEYS));
                    }
                }
            }
        })
    }
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
    /// Only those whose metadata has these values, by key: at most 8.
    #[serde(default)]
    #[cfg_attr(
        feature = "testing",
        ts(type = "Readonly<Record<string, string | number | boolean>>", optional)
    )]
    pub metadata: Option<MetadataFilter>,
    /// The `next` of the previous page: a key.
    #[serde(default)]
    pub after: Option<String>,
    /// The limit of rows: 1 to 1,000. Default 100.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<u32>"))]
    pub limit: Limit,
}

/// The usage of one group.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    /// The turn's id, the session's label, the agent, `provider/model`, the day as `2026-01-31`, or the value of the metadata:
    /// a string as it is, anything else as JSON.
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
    /// The number of calls of models for the memory: vectors of texts, and facts of turns. They belong to no turn: those for vectors to the
    /// session `system:memory`, those for facts to the session of the turn. With `since` or `until` whole days (UTC) are counted.
    pub memory_calls: u64,
    /// Their usage, which is not in `usage`.
    pub memory_usage: TokenUsage,
    /// US dollars of those with a known price, which are not in `cost`; null where there are none.
    pub memory_cost: Option<f64>,
}
