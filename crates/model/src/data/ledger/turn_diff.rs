//! What two turns have apart: the last turn that both follow, and what came after it on each side.
//!
//! Public types of the package. They must never be written back.

use serde::{Deserialize, Serialize};

use crate::{HistoryMessage, Limit, TokenUsage, ToolCallRow, TurnSummary};

/// Options of a comparison.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiffOptions {
    /// The limit of turns of a side whose content is returned: 1 to 1,000. Default 100. A side also ends at 16 MiB of content.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<u32>"))]
    pub limit: Limit,
}

/// Two turns compared.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TurnDiff {
    /// The last turn that both are or follow; null for turns of different trees.
    pub ancestor: Option<TurnSummary>,
    /// What the first turn has that the second has not.
    pub a: DiffSide,
    /// What the second turn has that the first has not.
    pub b: DiffSide,
}

/// One side of a comparison: the turns after the common ancestor, up to the turn of the side.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct DiffSide {
    /// The number of all its turns, compactions included.
    pub turn_count: u64,
    /// The sum of the usage of all of them.
    pub usage: TokenUsage,
    /// US dollars of those with a known price; null where there are none.
    pub cost: Option<f64>,
    /// The number of turns with an unknown price: their cost is not in `cost`.
    pub unpriced_turns: u64,
    /// The first turns, oldest first.
    pub turns: Vec<TurnSummary>,
    /// The messages of `turns`.
    pub messages: Vec<HistoryMessage>,
    /// The tool calls of `turns`.
    pub tool_calls: Vec<ToolCallRow>,
    /// True where there are more turns than `turns` has.
    pub truncated: bool,
}

impl DiffSide {
    /// The side with the sums of `turns`, and without their content.
    #[must_use]
    pub fn of(turns: &[TurnSummary]) -> Self {
        let mut side = Self { turn_count: turns.len() as u64, ..Self::default() };
        for turn in turns {
            side.usage = side.usage.plus(turn.usage);
            match turn.cost {
                Some(cost) => *side.cost.get_or_insert(0.0) += cost,
                None => side.unpriced_turns += 1,
            }
        }
        side
    }
}
