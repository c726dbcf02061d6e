//! Token estimates, where a provider reports none (docs/rules/compaction.md#estimate).
//!
//! Pure arithmetic. It must never be mixed with a provider's count unless the result is marked as an estimate.

use model::{Block, Message};

/// Tokens of an image.
const IMAGE_TOKENS: u64 = 1_200;

/// Tokens of a text: UTF-16 units / 4, or characters / 2 where most are not ASCII.
#[must_use]
pub fn text_tokens(text: &str) -> u64 {
    if text.is_ascii() {
        return count(text.len()).div_ceil(4);
    }
    let units = count(text.encode_utf16().count());
    let chars = count(text.chars().count());
    let non_ascii = count(text.chars().filter(|c| !c.is_ascii()).count());
    if non_ascii.saturating_mul(2) > chars { chars.div_ceil(2) } else { units.div_ceil(4) }
}

/// Tokens of blocks, as the model sees them.
#[must_use]
pub fn block_tokens(blocks: &[Block]) -> u64 {
    blocks.iter().fold(0, |sum, block| {
        sum + match block {
            Block::Text { text, .. } => text_tokens(text),
            Block::Image { .. } => IMAGE_TOKENS,
            Block::Thinking { thinking, .. } => text_tokens(thinking),
            Block::RedactedThinking { data, .. } => text_tokens(data),
            Block::ToolCall { name, arguments_json, .. } => {
                text_tokens(name) + text_tokens(arguments_json)
            }
            Block::ToolResult { content, .. } => block_tokens(content),
            Block::Opaque { raw_json } => text_tokens(raw_json),
        }
    })
}

/// Tokens of the blocks that every server counts differently: images and opaque blocks.
#[must_use]
pub fn uncertain_tokens(blocks: &[Block]) -> u64 {
    blocks.iter().fold(0, |sum, block| {
        sum + match block {
            Block::Image { .. } | Block::RedactedThinking { .. } | Block::Opaque { .. } => {
                block_tokens(std::slice::from_ref(block))
            }
            Block::ToolResult { content, .. } => uncertain_tokens(content),
            Block::Text { .. } | Block::Thinking { .. } | Block::ToolCall { .. } => 0,
        }
    })
}

/// Tokens of messages, as the model sees them.
#[must_use]
pub fn message_tokens<'a>(messages: impl IntoIterator<Item = &'a Message>) -> u64 {
    messages.into_iter().fold(0, |sum, message| sum.saturating_add(block_tokens(&message.blocks)))
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::text_tokens;

    #[test]
    fn a_token_is_four_ascii_units_or_two_characters_of_other_scripts() {
        assert_eq!(text_tokens(""), 0);
        assert_eq!(text_tokens("hello"), 2);
        assert_eq!(text_tokens("上下文过长"), 3);
    }
}
