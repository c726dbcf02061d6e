//! The content blocks of one response: converts provider events to neutral deltas.
//!
//! Tolerates duplicated, reordered and unknown events. It must never close a block whose content may have been lost.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::wire::{ContentBlock, DeltaBody, Kind};
use crate::json::{is_object, with_field};
use crate::members::Members;
use crate::wire::malformed;
use crate::{BlockStart, Delta, DeltaSink, Failure, OfferedTools};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
    ToolUse,
    /// A call of an unknown tool: the provider's if its result follows, else one of the context's.
    Undecided,
    /// An opaque block; the input of a provider-run call still arrives in deltas.
    Opaque,
    /// Whole in its start event.
    Whole,
    /// Fragments arrived for an index that has not begun: its block is never complete.
    Orphan,
}

#[derive(Debug)]
struct Block {
    wire_index: u64,
    index: u32,
    kind: BlockKind,
    closed: bool,
    /// Fragments were lost, so it never closes.
    lossy: bool,
    /// The input in the start event (tool calls), or the start event itself (opaque blocks).
    start_json: String,
    /// The input's fragments (opaque blocks), or the citations' objects joined by commas (text).
    gathered: String,
    has_arguments: bool,
    /// The id of an undecided call.
    id: String,
    /// The other members of a text block, except citations, as an object; empty for none.
    beside: String,
}

/// The blocks of one response. The neutral ones are numbered in the order they began, and no number is used twice.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    /// The newest block of each of the provider's indexes.
    positions: HashMap<u64, usize>,
    /// The start of the message was repeated after blocks had begun.
    replayed: bool,
    offered: OfferedTools,
    /// The undecided calls, by their ids.
    undecided: HashMap<String, usize>,
}

impl Blocks {
    pub(super) fn new(offered: OfferedTools) -> Self {
        Self { offered, ..Self::default() }
    }

    pub(super) fn any_begun(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Records a repeated start of the message: blocks that begin again after it are repetitions.
    pub(super) fn set_replayed(&mut self) {
        self.replayed = self.any_begun();
    }

    /// Begins a block, perhaps with content. A block that has begun already is not begun again; an index that is used again
    /// after its block closed is a new block, as some gateways do.
    pub(super) fn start(
        &mut self,
        wire_index: u64,
        raw: &RawValue,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        let unreadable = |_| malformed("a content block");
        let kind = serde_json::from_str::<Kind<'_>>(raw.get()).map_err(unreadable)?.kind;
        let (kind, content) = match kind.as_str() {
            "text" => (BlockKind::Text, Some(raw)),
            "thinking" => (BlockKind::Thinking, Some(raw)),
            "tool_use" => (BlockKind::ToolUse, Some(raw)),
            "redacted_thinking" => (BlockKind::Whole, Some(raw)),
            _ => (BlockKind::Opaque, None),
        };
        let is_result = content.is_none() && kind_is_result(raw);
        let content = content.map(|raw| serde_json::from_str::<ContentBlock<'_>>(raw.get()));
        let content = content.transpose().map_err(unreadable)?.unwrap_or_default();
        let name = content.name.as_str();
        let kind = match kind {
            BlockKind::ToolUse if !name.is_empty() && !self.offered.has(name) => {
                BlockKind::Undecided
            }
            kind => kind,
        };
        if is_result {
            self.answered(raw, sink);
        }

        let replayed = self.replayed;
        let lossy = match self.find(wire_index) {
            Some(block) if block.kind == BlockKind::Orphan => true,
            Some(block) if replayed || !block.closed => return Ok(()),
            Some(_) | None => false,
        };
        let mut block = Block { lossy, ..self.new_block(wire_index, kind) };
        block.start_with(&content, raw, sink);
        self.push(block);
        Ok(())
    }

    /// Adds to a block. Text for a block that never began begins it; fragments of a call's arguments do not, because without
    /// the start of the call the earlier fragments are unknown.
    pub(super) fn delta(
        &mut self,
        wire_index: u64,
        body: &DeltaBody<'_>,
        sink: &mut dyn DeltaSink,
    ) {
        let kind = body.kind.as_str();
        if self.find(wire_index).is_none() {
            let (kind, start) = match kind {
                "text_delta" => (BlockKind::Text, Some(BlockStart::Text)),
                "thinking_delta" => (BlockKind::Thinking, Some(BlockStart::Thinking)),
                "input_json_delta" if !body.partial_json.0.is_empty() => (BlockKind::Orphan, None),
                _ => return,
            };
            let block = self.new_block(wire_index, kind);
            if let Some(start) = start {
                sink.delta(Delta::BlockStart { index: block.index, start });
            }
            self.push(block);
        }
        let Some(block) = self.find(wire_index).filter(|block| !block.closed) else { return };
        let index = block.index;
        match (kind, block.kind) {
            ("text_delta", BlockKind::Text) => {
                sink.delta(Delta::Text { index, text: body.text.as_str() });
            }
            ("input_json_delta", BlockKind::ToolUse) => {
                let json = body.partial_json.as_str();
                if !json.is_empty() {
                    block.has_arguments = true;
                    sink.delta(Delta::Arguments { index, json });
                }
            }
            ("input_json_delta", BlockKind::Opaque | BlockKind::Undecided) => {
                let json = body.partial_json.as_str();
                sink.withheld(index, json.len());
                block.gathered.push_str(json);
            }
            ("thinking_delta", BlockKind::Thinking) => {
                sink.delta(Delta::Thinking { index, text: body.thinking.as_str() });
            }
            ("signature_delta", BlockKind::Thinking) => {
                sink.delta(Delta::Signature { index, signature: body.signature.as_str() });
            }
            ("citations_delta", BlockKind::Text) => {
                if let Some(citation) = body.citation {
                    sink.withheld(index, citation.get().len());
                    block.gather_citation(citation);
                }
            }
            // An unknown type of delta, or one that does not belong to the block.
            _ => {}
        }
    }

    /// Closes a block, once.
    pub(super) fn stop(&mut self, wire_index: u64, sink: &mut dyn DeltaSink) {
        let Some(block) = self.find(wire_index).filter(|block| !block.closed) else { return };
        if block.kind == BlockKind::Orphan {
            return;
        }
        block.closed = true;
        let index = block.index;
        match block.kind {
            BlockKind::ToolUse if !block.has_arguments && !block.start_json.is_empty() => {
                sink.delta(Delta::Arguments { index, json: &block.start_json });
            }
            BlockKind::Text if !block.gathered.is_empty() => {
                let citations = format!("\"citations\":[{}]", block.gathered);
                let json = Members::of(&block.beside, |_| false).object(&citations);
                let json = json.unwrap_or_default();
                sink.delta(Delta::ProviderData { index, json: &json });
            }
            BlockKind::Opaque if !block.gathered.is_empty() => match whole_input(block) {
                Some(json) => sink.delta(Delta::OpaqueJson { index, json: &json }),
                None => block.lossy = true,
            },
            // It closes when it is decided.
            BlockKind::Undecided => return,
            BlockKind::Text
            | BlockKind::Thinking
            | BlockKind::ToolUse
            | BlockKind::Opaque
            | BlockKind::Whole
            | BlockKind::Orphan => {}
        }
        if !block.lossy {
            sink.delta(Delta::BlockStop { index });
        }
    }

    /// Records a provider-run result: its call was the provider's own.
    fn answered(&mut self, result: &RawValue, sink: &mut dyn DeltaSink) {
        let Ok(ContentBlock { tool_use_id, .. }) = serde_json::from_str(result.get()) else {
            return;
        };
        let position = self.undecided.remove(tool_use_id.as_str());
        let Some(block) = position.and_then(|at| self.blocks.get_mut(at)) else { return };
        block.kind = BlockKind::Opaque;
        // A block that did not close is partial.
        if !block.closed || block.lossy {
            return;
        }
        let index = block.index;
        if !block.gathered.is_empty() {
            match whole_input(block) {
                Some(json) => sink.delta(Delta::OpaqueJson { index, json: &json }),
                None => return,
            }
        }
        sink.delta(Delta::BlockStop { index });
    }

    /// Ends the message: undecided calls without a provider's result are of tools of the context.
    pub(super) fn decide(&mut self, sink: &mut dyn DeltaSink) {
        for block in &mut self.blocks {
            if block.kind != BlockKind::Undecided {
                continue;
            }
            block.kind = BlockKind::ToolUse;
            let index = block.index;
            let start = serde_json::from_str::<ContentBlock<'_>>(&block.start_json);
            let start = start.unwrap_or_default();
            sink.delta(Delta::BecameCall { index, id: &block.id, name: start.name.as_str() });
            if let Some(json) = beside(BlockKind::ToolUse, &block.start_json).object("") {
                sink.delta(Delta::ProviderData { index, json: &json });
            }
            let whole = start.input.map_or("", RawValue::get);
            let json = match block.gathered.as_str() {
                "" if whole == "{}" || !block.closed => "",
                "" => whole,
                gathered => gathered,
            };
            if !json.is_empty() {
                sink.delta(Delta::Arguments { index, json });
            }
            if block.closed && !block.lossy {
                sink.delta(Delta::BlockStop { index });
            }
        }
    }

    fn new_block(&self, wire_index: u64, kind: BlockKind) -> Block {
        Block {
            wire_index,
            index: u32::try_from(self.blocks.len()).unwrap_or(u32::MAX),
            kind,
            closed: false,
            lossy: false,
            start_json: String::new(),
            gathered: String::new(),
            has_arguments: false,
            id: String::new(),
            beside: String::new(),
        }
    }

    fn push(&mut self, block: Block) {
        if block.kind == BlockKind::Undecided {
            self.undecided.insert(block.id.clone(), self.blocks.len());
        }
        self.positions.insert(block.wire_index, self.blocks.len());
        self.blocks.push(block);
    }

    /// The newest block of a provider's index; nearly always the one that began last.
    fn find(&mut self, wire_index: u64) -> Option<&mut Block> {
        let last = self.blocks.len().checked_sub(1)?;
        let position = match self.blocks.get(last) {
            Some(block) if block.wire_index == wire_index => last,
            _ => *self.positions.get(&wire_index)?,
        };
        self.blocks.get_mut(position)
    }
}

impl Block {
    fn start_with(&mut self, content: &ContentBlock<'_>, raw: &RawValue, sink: &mut dyn DeltaSink) {
        let index = self.index;
        let start = match self.kind {
            BlockKind::Text => BlockStart::Text,
            BlockKind::Thinking => BlockStart::Thinking,
            BlockKind::ToolUse => {
                BlockStart::ToolCall { id: content.id.as_str(), name: content.name.as_str() }
            }
            BlockKind::Opaque | BlockKind::Undecided => BlockStart::Opaque { raw_json: raw.get() },
            BlockKind::Whole => BlockStart::RedactedThinking { data: content.data.as_str() },
            BlockKind::Orphan => return,
        };
        sink.delta(Delta::BlockStart { index, start });
        let beside = beside(self.kind, raw.get());
        if self.kind != BlockKind::Undecided
            && let Some(json) = beside.object("")
        {
            sink.delta(Delta::ProviderData { index, json: &json });
        }
        match self.kind {
            BlockKind::Text => {
                self.beside = beside.object("").unwrap_or_default();
                for citation in content.citations.iter().flatten() {
                    self.gather_citation(citation);
                }
                if !content.text.0.is_empty() {
                    sink.delta(Delta::Text { index, text: content.text.as_str() });
                }
            }
            BlockKind::Thinking => {
                if !content.thinking.0.is_empty() {
                    sink.delta(Delta::Thinking { index, text: content.thinking.as_str() });
                }
                if !content.signature.0.is_empty() {
                    let signature = content.signature.as_str();
                    sink.delta(Delta::Signature { index, signature });
                }
            }
            BlockKind::ToolUse => {
                let input = content.input.map_or("", RawValue::get);
                if input != "{}" {
                    input.clone_into(&mut self.start_json);
                }
            }
            BlockKind::Opaque => raw.get().clone_into(&mut self.start_json),
            BlockKind::Undecided => {
                raw.get().clone_into(&mut self.start_json);
                content.id.as_str().clone_into(&mut self.id);
            }
            BlockKind::Whole | BlockKind::Orphan => {}
        }
    }

    fn gather_citation(&mut self, citation: &RawValue) {
        if !self.gathered.is_empty() {
            self.gathered.push(',');
        }
        self.gathered.push_str(citation.get());
    }
}

/// Whether a block is the result of a tool that the provider ran.
fn kind_is_result(raw: &RawValue) -> bool {
    serde_json::from_str::<Kind<'_>>(raw.get())
        .is_ok_and(|block| block.kind.as_str().ends_with("tool_result"))
}

/// The other members of a block; they are sent back with it. A `caller` that is the model itself counts as none.
fn beside(kind: BlockKind, raw: &str) -> Members<'_> {
    let known: &[&str] = match kind {
        BlockKind::Text => &["type", "text", "citations"],
        BlockKind::Thinking => &["type", "thinking", "signature"],
        BlockKind::ToolUse | BlockKind::Undecided => &["type", "id", "name", "input"],
        BlockKind::Whole => &["type", "data"],
        BlockKind::Opaque | BlockKind::Orphan => return Members::default(),
    };
    let is_direct = |caller: &RawValue| {
        serde_json::from_str::<Kind<'_>>(caller.get())
            .is_ok_and(|caller| caller.kind.as_str() == "direct")
    };
    let members = Members::of(raw, |name| known.contains(&name));
    if members.get("caller").is_some_and(is_direct) {
        return Members::of(raw, |name| name == "caller" || known.contains(&name));
    }
    members
}

/// An opaque block with its input from fragments; `None` where that is no JSON object.
fn whole_input(block: &Block) -> Option<String> {
    is_object(&block.gathered)
        .then(|| with_field(&block.start_json, "input", &block.gathered))
        .flatten()
}
