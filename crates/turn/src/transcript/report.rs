//! What a projection left out, counted, so that nothing is lost in silence (docs/rules/projection.md#passes).
//!
//! It must never hold content: only how much of it.

use model::Block;

/// Blocks left out, by the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Thinking of another model, from before an edit, without its signature, or without the item it belongs to.
    pub thinking: usize,
    /// Blocks only their provider understands, for another one; halves of a pair.
    pub opaque: usize,
    /// Calls that did not end, or without a usable id or name; of an interrupted turn also those without a result.
    pub calls: usize,
    /// Results without a call, or given twice.
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
