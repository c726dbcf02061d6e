//! Splits a conversation into chunks that fit the summariser (docs/rules/compaction.md#chunks).
//!
//! The order is preserved and nothing is lost. It must never make a chunk larger than the summariser can read.

use super::budget::share;
use crate::estimate;

/// A message as the summariser reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The text.
    pub text: String,
    /// Its estimate in tokens.
    pub tokens: u64,
}

/// The safety margin of an estimate, in percent.
const MARGIN: u64 = 120;
/// A chunk's share of the window, in percent; less where messages are large.
const BASE_SHARE: u64 = 40;
const LEAST_SHARE: u64 = 15;
/// A message over this share of the window is replaced by a note.
const OVERSIZE_SHARE: u64 = 50;

/// The parts as chunks for a summariser with this window. A part too large for a chunk becomes a note of its size.
pub fn chunks(parts: Vec<Part>, window: u64) -> Vec<Vec<Part>> {
    let parts: Vec<Part> = parts.into_iter().map(|part| noted(part, window)).collect();
    let capacity = capacity(&parts, window);
    let mut out: Vec<Vec<Part>> = Vec::new();
    let mut filled = 0_u64;
    for part in parts {
        let tokens = share(part.tokens, MARGIN);
        match out.last_mut() {
            Some(chunk) if filled.saturating_add(tokens) <= capacity => {
                chunk.push(part);
                filled = filled.saturating_add(tokens);
            }
            Some(_) | None => {
                out.push(vec![part]);
                filled = tokens;
            }
        }
    }
    out
}

/// The size of one chunk. If the average message exceeds a tenth of the window, the share decreases by twice the excess.
fn capacity(parts: &[Part], window: u64) -> u64 {
    let count = u64::try_from(parts.len()).unwrap_or(u64::MAX).max(1);
    let total: u64 = parts.iter().fold(0, |sum, part| sum.saturating_add(part.tokens));
    let average = share(total / count, MARGIN);
    let percent = average.saturating_mul(100) / window.max(1);
    let reduced = if percent > 10 {
        BASE_SHARE.saturating_sub(percent.saturating_mul(2)).max(LEAST_SHARE)
    } else {
        BASE_SHARE
    };
    share(window, reduced)
}

fn noted(part: Part, window: u64) -> Part {
    if share(part.tokens, MARGIN) <= share(window, OVERSIZE_SHARE) {
        return part;
    }
    let head: String = part.text.chars().take(200).collect();
    let text = format!(
        "{head}\n[… a message of about {} tokens, too large to be summarised …]",
        part.tokens
    );
    Part { tokens: estimate::text_tokens(&text), text }
}
