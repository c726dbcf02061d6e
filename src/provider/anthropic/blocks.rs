//! The content blocks of one response: provider events to neutral deltas.
//!
//! Tolerates duplicated, reordered and unknown events. It must never close a block whose content may have been lost.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::failure;
use super::wire::{ContentBlock, DeltaBody, Kind};
use crate::provider::json::{fields_of, is_object, write_string};
use crate::provider::{BlockStart, Delta, DeltaSink, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
    ToolUse,
    /// Only the provider understands it; a provider-run call's input still comes in deltas.
    Opaque,
    /// Came whole with its start.
    Whole,
    /// Fragments came for an index that has not begun: what it becomes is never complete.
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
    /// The input the start carried (tool calls), or the start itself (opaque blocks).
    start_json: String,
    /// The input's fragments (opaque blocks), or the citations' objects joined by commas (text).
    gathered: String,
    has_arguments: bool,
}

/// The blocks of one response. Ours are numbered in the order they began, and no number is used twice.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    /// The newest block of each of the provider's indexes.
    positions: HashMap<u64, usize>,
    /// The message's beginning was repeated after blocks had begun.
    replayed: bool,
}

impl Blocks {
    pub(super) fn any_begun(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// The message's beginning came again: what begins again from here on is a repetition.
    pub(super) fn set_replayed(&mut self) {
        self.replayed = self.any_begun();
    }

    /// A block begins, perhaps with content. One that has begun already is not begun again; an index that is used
    /// again after its block closed names a new block, as some gateways do.
    pub(super) fn start(
        &mut self,
        wire_index: u64,
        raw: &RawValue,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        let malformed = |_| failure::malformed("a content block");
        let kind = serde_json::from_str::<Kind<'_>>(raw.get()).map_err(malformed)?.kind;
        let (kind, content) = match kind.as_str() {
            "text" => (BlockKind::Text, Some(raw)),
            "thinking" => (BlockKind::Thinking, Some(raw)),
            "tool_use" => (BlockKind::ToolUse, Some(raw)),
            "redacted_thinking" => (BlockKind::Whole, Some(raw)),
            _ => (BlockKind::Opaque, None),
        };
        let content = content.map(|raw| serde_json::from_str::<ContentBlock<'_>>(raw.get()));
        let content = content.transpose().map_err(malformed)?.unwrap_or_default();

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

    /// More of a block. Text for a block that never began begins it; fragments of a call's arguments do not, because
    /// without the call's start nobody knows what came before them.
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
            ("input_json_delta", BlockKind::Opaque) => {
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
            // A type of delta that is unknown, or that does not belong to the block.
            _ => {}
        }
    }

    /// A block closes, once.
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
                let json = format!("{{\"citations\":[{}]}}", block.gathered);
                sink.delta(Delta::ProviderData { index, json: &json });
            }
            BlockKind::Opaque if !block.gathered.is_empty() => {
                match with_input(&block.start_json, &block.gathered) {
                    Some(json) => sink.delta(Delta::OpaqueJson { index, json: &json }),
                    None => block.lossy = true,
                }
            }
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
        }
    }

    fn push(&mut self, block: Block) {
        self.positions.insert(block.wire_index, self.blocks.len());
        self.blocks.push(block);
    }

    /// The newest block of a provider's index; the one that began last is asked for nearly always.
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
            BlockKind::Opaque => BlockStart::Opaque { raw_json: raw.get() },
            BlockKind::Whole => BlockStart::RedactedThinking { data: content.data.as_str() },
            BlockKind::Orphan => return,
        };
        sink.delta(Delta::BlockStart { index, start });
        match self.kind {
            BlockKind::Text => {
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
                if let Some(json) = attached_to_call(content) {
                    sink.delta(Delta::ProviderData { index, json: &json });
                }
            }
            BlockKind::Opaque => raw.get().clone_into(&mut self.start_json),
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

/// What a call must be sent back with: who called, where it was not the model itself, and its toolset.
fn attached_to_call(content: &ContentBlock<'_>) -> Option<String> {
    let is_direct = |caller: &&RawValue| {
        serde_json::from_str::<Kind<'_>>(caller.get())
            .is_ok_and(|caller| caller.kind.as_str() == "direct")
    };
    let caller = content.caller.filter(|caller| !is_direct(caller));
    let fields = [("caller", caller), ("toolset_name", content.toolset_name)];
    let fields: Vec<String> = fields
        .into_iter()
        .filter_map(|(name, value)| Some(format!("\"{name}\":{}", value?.get())))
        .collect();
    (!fields.is_empty()).then(|| format!("{{{}}}", fields.join(",")))
}

/// A block's JSON with its `input` replaced, every other field as it came; `None` where either is no JSON object.
fn with_input(block: &str, input: &str) -> Option<String> {
    if !is_object(input) {
        return None;
    }
    let mut out = Vec::with_capacity(block.len() + input.len());
    let mut replaced = false;
    for (name, value) in fields_of(block)? {
        out.push(if out.is_empty() { b'{' } else { b',' });
        write_string(&mut out, name.as_str());
        out.push(b':');
        let is_input = name.as_str() == "input";
        replaced |= is_input;
        out.extend_from_slice(if is_input { input.as_bytes() } else { value.get().as_bytes() });
    }
    if !replaced {
        out.push(if out.is_empty() { b'{' } else { b',' });
        out.extend_from_slice(b"\"input\":");
        out.extend_from_slice(input.as_bytes());
    }
    out.push(b'}');
    String::from_utf8(out).ok()
}
