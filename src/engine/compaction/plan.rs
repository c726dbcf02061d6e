//! How far a compaction cuts.
//!
//! It must never call a model.

use super::options::{Preset, Strategy};
use crate::engine::context::CompactionInput;
use model::Message;
use turn::compact::{Cut, Size, Trigger, cut, truncate_results};
use turn::estimate;

/// The messages that stay in the simple form.
const MYCLAW_MESSAGES: usize = 10;

/// The sizes that decide a cut, in estimated tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct CutSizes {
    /// The part that no cut makes smaller.
    pub(super) fixed: u64,
    /// The target size of the context.
    pub(super) target: u64,
    /// The maximum size of the context.
    pub(super) limit: u64,
}

/// How far the strategy cuts; `None` where there is nothing to cut.
pub(super) fn cut_by(
    strategy: Strategy,
    preset: Option<Preset>,
    input: &CompactionInput,
    groups: &[Size],
    sizes: CutSizes,
) -> Option<Cut> {
    let turns: Vec<Size> = input.turns.iter().map(|turn| size(&turn.messages)).collect();
    let by_size = || cut(&turns, groups, sizes.fixed, sizes.target, sizes.limit);
    match (strategy, preset) {
        (Strategy::ToolResultTruncation, _) => Some(Cut { turns: 0, groups: 0, truncate: true }),
        (Strategy::HardClear, _) if !turns.is_empty() => {
            Some(Cut { turns: turns.len(), groups: 0, truncate: false })
        }
        (Strategy::Summary, Some(Preset::Myclaw)) => {
            let mut count = 0;
            let first = turns.len()
                - input
                    .turns
                    .iter()
                    .rev()
                    .take_while(|turn| {
                        count += turn.messages.len();
                        count <= MYCLAW_MESSAGES
                    })
                    .count();
            let simple = Cut { turns: first, groups: 0, truncate: false };
            // If that is still too large, the normal cut applies.
            if first > 0 { Some(simple) } else { by_size() }
        }
        (Strategy::Summary | Strategy::SlidingWindow | Strategy::HardClear, _) => by_size(),
    }
}

/// The text in place of turns that were left out without a summary.
pub(super) fn left_out(turns: usize, previous: Option<&str>) -> String {
    let note = format!("({turns} earlier turns were left out here.)");
    match previous {
        Some(previous) => format!("{previous}\n\n{note}"),
        None => note,
    }
}

/// The broker interface has two triggers; a manual compaction counts as one for the limit.
pub(super) fn seed_trigger(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::ContextLimit | Trigger::Manual => Trigger::ContextLimit.as_str(),
        Trigger::Overflow => Trigger::Overflow.as_str(),
    }
}

pub(super) fn size(messages: &[Message]) -> Size {
    let truncated: Vec<Message> = messages.iter().map(truncate_results).collect();
    Size {
        tokens: estimate::message_tokens(messages),
        truncated: estimate::message_tokens(&truncated),
    }
}
