//! Pruning: which old tool results are sent shortened once the provider's cache is cold (docs/rules/compaction.md#pruning).
//!
//! Pure: it decides on projected messages and shortens the pruned ones. It must never change anything but the results
//! before the last three answers, and never separate a result from its call.

use std::collections::BTreeMap;

use super::compact::share;
use super::estimate;
use model::{Block, Message, Role};

/// The pruning level of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Its beginning and its end are sent.
    Trimmed,
    /// A fixed line is sent instead.
    Cleared,
}

/// Which messages of a conversation are pruned, by their index in it.
pub type Pruned = BTreeMap<usize, Level>;

/// The thresholds of pruning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Percent of the window from which large results are trimmed.
    pub trim: u64,
    /// Percent of the window down to which results are cleared, oldest first.
    pub clear: u64,
}

/// Characters of a result that is sent whole.
const LARGE: usize = 4_000;
/// Characters that remain of a trimmed result's beginning, and of its end.
const PROTECTED: usize = 1_500;
/// The number of last answers that are protected, with everything after the first of them.
const UNTOUCHED: usize = 3;
const CLEARED: &str = "[This result was shown earlier and is left out here.]";

/// Which of `messages` to prune where the rest of the request has `overhead` tokens. Deterministic.
pub fn decide(messages: &[Message], overhead: u64, window: u64, shares: Shares) -> Pruned {
    let mut pruned = Pruned::new();
    let tokens = |message: &Message| estimate::block_tokens(&message.blocks);
    let mut sum = messages.iter().fold(overhead, |sum, it| sum.saturating_add(tokens(it)));
    let answers = messages.iter().enumerate().rev().filter(|(_, it)| it.role == Role::Assistant);
    let Some((end, _)) = answers.take(UNTOUCHED).nth(UNTOUCHED - 1) else { return pruned };
    let old = || messages.iter().enumerate().take(end).filter(|(_, it)| it.role == Role::Tool);
    if sum <= share(window, shares.trim) {
        return pruned;
    }
    for (at, message) in old() {
        let trimmed = apply(message, Level::Trimmed);
        if trimmed.blocks != message.blocks {
            sum = sum.saturating_sub(tokens(message).saturating_sub(tokens(&trimmed)));
            pruned.insert(at, Level::Trimmed);
        }
    }
    for (at, message) in old() {
        if sum <= share(window, shares.clear) {
            break;
        }
        let now = pruned.get(&at).map_or_else(|| message.clone(), |level| apply(message, *level));
        let saved = tokens(&now).saturating_sub(tokens(&apply(message, Level::Cleared)));
        if saved > 0 {
            sum = sum.saturating_sub(saved);
            pruned.insert(at, Level::Cleared);
        }
    }
    pruned
}

/// A pruned message as it is sent. Blocks other than tool results stay unchanged.
pub fn apply(message: &Message, level: Level) -> Message {
    let mut message = message.clone();
    if message.role != Role::Tool {
        return message;
    }
    for block in &mut message.blocks {
        if let Block::ToolResult { content, .. } = block {
            match level {
                Level::Trimmed => trim(content),
                Level::Cleared => *content = vec![Block::text(CLEARED)],
            }
        }
    }
    message
}

/// Trims a result's text to its two ends, over all of its parts; images stay.
fn trim(content: &mut Vec<Block>) {
    let mut whole = String::new();
    for block in content.iter() {
        if let Block::Text { text, .. } = block {
            if !whole.is_empty() {
                whole.push('\n');
            }
            whole.push_str(text);
        }
    }
    let chars = whole.chars().count();
    if chars <= LARGE {
        return;
    }
    let at = |n: usize| whole.char_indices().nth(n).map_or(whole.len(), |(at, _)| at);
    let head = whole.get(..at(PROTECTED)).unwrap_or_default();
    let tail = whole.get(at(chars - PROTECTED)..).unwrap_or_default();
    let left_out = chars - 2 * PROTECTED;
    let text =
        format!("{head}\n[… {left_out} characters of this earlier result are left out …]\n{tail}");
    content.retain(|block| !matches!(block, Block::Text { .. }));
    content.insert(0, Block::text(text));
}

#[cfg(test)]
mod tests;
