//! Counts what a projection left out, so that no loss is silent (docs/rules/projection.md#passes).
//!
//! It must never hold content, only counts.

use model::Block;

/// Blocks left out, by the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Thinking of another model, from before an edit, without its signature, or without its item.
    pub thinking: usize,
    /// Opaque blocks of another provider; halves of a pair.
    pub opaque: usize,
    /// Incomplete calls, and calls without a usable id or name; in an interrupted turn also those without a result.
    pub calls: usize,
    /// Results without a call, and duplicates.
    pub results: usize,
    /// Blank texts, and blocks that their role cannot have.
    pub other: usize,
}

impl Dropped {
    /// Counts a block that is left out.
    pub(super) fn count(&mut self, block: &Block) {
        match block {
            Block::Thinking { .. } | Block::RedactedThinking { .. } => self.thinking += 1,
            Block::Opaque { .. } => self.opaque += 1,
            Block::ToolCall { .. } => self.calls += 1,
            Block::ToolResult { .. } => self.results += 1,
            Block::Text { .. } | Block::Image { .. } => self.other += 1,
        }
    }
}
