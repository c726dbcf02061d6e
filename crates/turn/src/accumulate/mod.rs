//! Builds message blocks from deltas.
//!
//! Costs one append per delta, up to the limits of an answer. It must never parse tool arguments, and never complete a
//! block that did not close.

mod limits;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use self::limits::{Excess, Size};
use model::{Block, BlockStart, Delta, DeltaSink, Failure, ReportedUsage};

/// The content of a response, whole or cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accumulated {
    /// The blocks, in the order they began. Empty text and thinking are left out.
    pub blocks: Vec<Block>,
    /// The last reported usage.
    pub usage: Option<ReportedUsage>,
    /// The provider's id of the response, where it sent one.
    pub response_id: Option<String>,
    /// The model of the response, where it was reported.
    pub model: Option<String>,
}

#[derive(Debug)]
struct Entry {
    index: u32,
    block: Block,
    closed: bool,
}

/// Collects one response. A delta for a block that never began is ignored.
#[derive(Debug, Default)]
pub struct Accumulator {
    entries: Vec<Entry>,
    /// The positions of blocks whose index is not their position.
    positions: HashMap<u32, usize>,
    usage: Option<ReportedUsage>,
    response_id: Option<String>,
    model: Option<String>,
    size: Size,
    excess: Option<Excess>,
}

impl Accumulator {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one delta; false where it exceeds a limit of an answer. After that only usage is applied.
    pub fn apply(&mut self, delta: &Delta<'_>) -> bool {
        if self.excess.is_some() && !matches!(delta, Delta::Usage(_)) {
            return false;
        }
        if let Err(excess) = self.size.admit(delta) {
            self.excess = Some(excess);
            return false;
        }
        match *delta {
            Delta::Started { response_id, model } => {
                self.response_id = (!response_id.is_empty()).then(|| response_id.to_owned());
                self.model = (!model.is_empty()).then(|| model.to_owned());
            }
            Delta::BlockStart { index, ref start } => self.begin(index, start),
            Delta::Text { index, text: more } => {
                if let Some(Block::Text { text, .. }) = self.block(index) {
                    text.push_str(more);
                }
            }
            Delta::Thinking { index, text: more } => {
                if let Some(Block::Thinking { thinking, .. }) = self.block(index) {
                    thinking.push_str(more);
                }
            }
            Delta::Signature { index, signature: whole } => {
                if let Some(Block::Thinking { signature, .. }) = self.block(index) {
                    *signature = Some(whole.to_owned());
                }
            }
            Delta::Arguments { index, json } => {
                if let Some(Block::ToolCall { arguments_json, .. }) = self.block(index) {
                    arguments_json.push_str(json);
                }
            }
            Delta::CallIdentity { index, id: new_id, name: new_name } => {
                if let Some(Block::ToolCall { id, name, .. }) = self.block(index) {
                    replace_unless_empty(id, new_id);
                    replace_unless_empty(name, new_name);
                }
            }
            Delta::BecameCall { index, id, name } => {
                if let Some(block @ Block::Opaque { .. }) = self.block(index) {
                    *block = open_call(id, name);
                }
            }
            Delta::ProviderData { index, json } => self.set_provider_data(index, json),
            Delta::OpaqueJson { index, json } => {
                if let Some(Block::Opaque { raw_json }) = self.block(index) {
                    replace_unless_empty(raw_json, json);
                }
            }
            Delta::BlockStop { index } => self.close(index),
            Delta::Usage(usage) => self.usage = Some(usage),
        }
        true
    }

    /// The content so far, also of a response that did not end: text and thinking as received, a tool call that did not close
    /// marked incomplete, an opaque block that did not close left out, because half of one is unusable.
    #[must_use]
    pub fn finish(self) -> Accumulated {
        let blocks = self
            .entries
            .into_iter()
            .filter(|entry| entry.closed || !matches!(entry.block, Block::Opaque { .. }))
            .filter(|entry| !is_empty(&entry.block))
            .map(|entry| entry.block)
            .collect();
        Accumulated { blocks, usage: self.usage, response_id: self.response_id, model: self.model }
    }

    fn begin(&mut self, index: u32, start: &BlockStart<'_>) {
        if self.position(index).is_some() {
            return;
        }
        let block = match *start {
            BlockStart::Text => Block::text(""),
            BlockStart::Thinking => {
                Block::Thinking { thinking: String::new(), signature: None, provider_data: None }
            }
            BlockStart::RedactedThinking { data } => {
                Block::RedactedThinking { data: data.to_owned(), provider_data: None }
            }
            BlockStart::ToolCall { id, name } => open_call(id, name),
            BlockStart::Opaque { raw_json } => Block::Opaque { raw_json: raw_json.to_owned() },
        };
        let position = self.entries.len();
        if usize::try_from(index) != Ok(position) {
            self.positions.insert(index, position);
        }
        self.entries.push(Entry { index, block, closed: false });
    }

    fn close(&mut self, index: u32) {
        let Some(entry) = self.position(index).and_then(|at| self.entries.get_mut(at)) else {
            return;
        };
        entry.closed = true;
        if let Block::ToolCall { incomplete, .. } = &mut entry.block {
            *incomplete = false;
        }
    }

    fn set_provider_data(&mut self, index: u32, json: &str) {
        match self.block(index) {
            Some(
                Block::Text { provider_data, .. }
                | Block::Thinking { provider_data, .. }
                | Block::RedactedThinking { provider_data, .. }
                | Block::ToolCall { provider_data, .. },
            ) => *provider_data = Some(json.to_owned()),
            Some(Block::Image { .. } | Block::ToolResult { .. } | Block::Opaque { .. }) | None => {}
        }
    }

    fn block(&mut self, index: u32) -> Option<&mut Block> {
        let at = self.position(index)?;
        self.entries.get_mut(at).map(|entry| &mut entry.block)
    }

    fn position(&self, index: u32) -> Option<usize> {
        usize::try_from(index)
            .ok()
            .filter(|at| self.entries.get(*at).is_some_and(|entry| entry.index == index))
            .or_else(|| self.positions.get(&index).copied())
    }
}

impl DeltaSink for Accumulator {
    fn delta(&mut self, delta: Delta<'_>) {
        self.apply(&delta);
    }

    fn withheld(&mut self, index: u32, bytes: usize) {
        if let Err(excess) = self.size.withhold(index, bytes) {
            self.excess.get_or_insert(excess);
        }
    }

    fn refusal(&self) -> Option<Failure> {
        self.excess.map(Excess::failure)
    }
}

/// The block of a call that has just begun.
fn open_call(id: &str, name: &str) -> Block {
    Block::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments_json: String::new(),
        incomplete: true,
        provider_data: None,
    }
}

fn replace_unless_empty(old: &mut String, new: &str) {
    if !new.is_empty() {
        new.clone_into(old);
    }
}

/// Whether a block has no content.
fn is_empty(block: &Block) -> bool {
    match block {
        Block::Text { text, provider_data, .. } => text.is_empty() && provider_data.is_none(),
        Block::Thinking { thinking, signature, provider_data } => {
            thinking.is_empty() && signature.is_none() && provider_data.is_none()
        }
        Block::Image { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. }
        | Block::Opaque { .. } => false,
    }
}
