//! Pruning: which old tool results are sent shortened once the provider's cache is cold (docs/rules/compaction.md#pruning).
//!
//! Pure: it decides on projected messages and writes how a pruned one reads. It must never touch anything but the results
//! before the last three answers, and never take a result away from its call.

use std::collections::BTreeMap;

use super::compact::share;
use super::estimate;
use model::{Block, Message, Role};

/// How far a result is pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Its beginning and its end are sent.
    Trimmed,
    /// A line is sent instead.
    Cleared,
}

/// Which messages of a conversation are pruned, by their index in it.
pub type Pruned = BTreeMap<usize, Level>;

/// When and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Percent of the window from which large results are trimmed.
    pub trim: u64,
    /// Percent of the window down to which results are cleared, oldest first.
    pub clear: u64,
}

/// Characters of a result that is sent whole.
const LARGE: usize = 4_000;
/// Characters that remain of a trimmed one's beginning, and of its end.
const KEPT: usize = 1_500;
/// The last answers, from the first of which on nothing is touched.
const UNTOUCHED: usize = 3;
const CLEARED: &str = "[This result was told earlier, and is left out here.]";

/// What of `messages` to prune where the rest of the request has `overhead` tokens. The same for the same, always.
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

/// A message as it is sent when it is pruned. What is no tool result stays as it is.
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

/// Keeps the ends of a result's text, over all of its parts, and its images.
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
    let head = whole.get(..at(KEPT)).unwrap_or_default();
    let tail = whole.get(at(chars - KEPT)..).unwrap_or_default();
    let left_out = chars - 2 * KEPT;
    let text =
        format!("{head}\n[… {left_out} characters of this earlier result are left out …]\n{tail}");
    content.retain(|block| !matches!(block, Block::Text { .. }));
    content.insert(0, Block::text(text));
}

#[cfg(test)]
mod tests;
