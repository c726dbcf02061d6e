//! Where a compaction cuts: which turns stay as they are and which become a summary (docs/rules/compaction.md#kept-turns).
//!
//! The unit is a turn; in a running turn that is too large, it is a group (an assistant message with its results). It must
//! never cut the question of the running turn.

use std::ops::Range;

use model::{Message, Role};

/// The minimum number of turns that stay.
const MIN_TURNS: usize = 3;

/// The size of a turn or a group, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Unchanged.
    pub tokens: u64,
    /// With truncated tool results.
    pub truncated: u64,
}

/// Which part is summarised, and whether results in the rest are truncated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cut {
    /// How many turns of the history are summarised, from the first.
    pub turns: usize,
    /// How many groups of the running turn are summarised too, from the first.
    pub groups: usize,
    /// The tool results of the turns that stay are truncated.
    pub truncate: bool,
}

/// Where to cut a history of `turns` (oldest first) before a running turn of `groups`, so that with the `fixed` tokens
/// (system prompt, tools, the question, the future summary) the sum is about `target` and never over `limit`. `None`
/// where there is nothing to summarise.
pub fn cut(turns: &[Size], groups: &[Size], fixed: u64, target: u64, limit: u64) -> Option<Cut> {
    let sum = |sizes: &[Size], truncate: bool| {
        sizes.iter().fold(fixed, |sum, size| {
            sum.saturating_add(if truncate { size.truncated } else { size.tokens })
        })
    };
    let cut_at = |turns: &[Size], retain: usize| turns.len().saturating_sub(retain);
    let weight = |retain: usize, truncate: bool| {
        let tail = turns.get(cut_at(turns, retain)..).unwrap_or_default();
        sum(tail, truncate).saturating_add(sum(groups, truncate)).saturating_sub(fixed)
    };
    let most = (0..=turns.len()).rev().find(|retain| weight(*retain, false) <= target);
    let least = MIN_TURNS.min(turns.len());
    let chosen = match most {
        Some(retain) if retain >= least => Some((retain, false)),
        _ if weight(least, false) <= limit => Some((least, false)),
        _ if weight(least, true) <= limit => Some((least, true)),
        _ => (0..least)
            .rev()
            .flat_map(|retain| [(retain, false), (retain, true)])
            .find(|(retain, truncate)| weight(*retain, *truncate) <= limit),
    };
    let cut = match chosen {
        Some((retain, truncate)) => Cut { turns: cut_at(turns, retain), groups: 0, truncate },
        None => {
            // The running turn alone is too large: its groups are summarised too, oldest first, except the newest one.
            let summarised = (1..groups.len())
                .find(|from| sum(groups.get(*from..).unwrap_or_default(), true) <= target)
                .unwrap_or(groups.len().saturating_sub(1));
            Cut { turns: turns.len(), groups: summarised, truncate: true }
        }
    };
    (cut.turns > 0 || cut.groups > 0 || cut.truncate).then_some(cut)
}

/// The groups of a running turn, as ranges of its messages: each begins at an assistant message and ends before the next.
/// The messages before the first group (the question) belong to none.
pub fn groups(messages: &[Message]) -> Vec<Range<usize>> {
    let starts: Vec<usize> = messages
        .iter()
        .enumerate()
        .filter(|(_, message)| message.role == Role::Assistant)
        .map(|(at, _)| at)
        .collect();
    let ends = starts.iter().copied().skip(1).chain([messages.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}
