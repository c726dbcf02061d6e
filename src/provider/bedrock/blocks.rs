//! The content blocks of a response: Converse's events to neutral deltas.
//!
//! Only calls and provider-run tools begin with an event; text and reasoning begin with their first piece. Tolerates
//! duplicated, reordered and unknown events. It must never close a block whose content may have been lost.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::decode::malformed;
use super::wire::{Block as WholeBlock, DeltaBody, ReasoningDelta, Start, ToolUse};
use crate::provider::json::is_object;
use crate::provider::{BlockStart, Delta, DeltaSink, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    /// Encrypted reasoning: told when it is whole.
    Redacted,
    Call,
    /// A call of a tool that the provider runs.
    ServerCall,
    /// What that tool answered.
    ServerResult,
    /// Citations without a text of their own.
    Citations,
    /// Arguments came for a call that has not begun: it is never complete.
    Orphan,
}

#[derive(Debug)]
struct Block {
    wire_index: u64,
    /// Ours, of blocks that were told.
    index: u32,
    kind: Kind,
    closed: bool,
    /// Fragments were lost, so it never closes.
    lossy: bool,
    /// The beginning of a provider-run tool's block.
    start: String,
    /// What is told whole: an input, items joined by commas, encrypted reasoning.
    gathered: String,
}

/// The blocks of one response. Ours are numbered in the order they are told.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    /// The newest block of each of the provider's indexes.
    positions: HashMap<u64, usize>,
    told: u32,
    calls: bool,
}

impl Blocks {
    pub(super) fn any_begun(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Whether one of our tools was called.
    pub(super) fn any_calls(&self) -> bool {
        self.calls
    }

    /// A block begins. One that has begun is not begun again; an index used again after its block closed names a new one.
    pub(super) fn start(
        &mut self,
        wire_index: u64,
        start: &Start<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        let lossy = match self.find(wire_index) {
            Some(block) if block.kind == Kind::Orphan => true,
            Some(block) if !block.closed => return Ok(()),
            Some(_) | None => false,
        };
        if let Some(raw) = start.tool_use {
            let call: ToolUse<'_> =
                serde_json::from_str(raw.get()).map_err(|_| malformed("a call's beginning"))?;
            if call.is_ours() {
                let begun = BlockStart::ToolCall {
                    id: call.tool_use_id.as_str(),
                    name: call.name.as_str(),
                };
                self.calls = true;
                self.begin(wire_index, Kind::Call, begun, sink);
            } else {
                self.begin_opaque(wire_index, Kind::ServerCall, "toolUse", raw, sink);
            }
            if let Some(block) = self.find(wire_index) {
                block.lossy = lossy;
            }
        } else if let Some(raw) = start.tool_result {
            self.begin_opaque(wire_index, Kind::ServerResult, "toolResult", raw, sink);
        }
        Ok(())
    }

    /// More of a block.
    pub(super) fn delta(
        &mut self,
        wire_index: u64,
        body: &DeltaBody<'_>,
        sink: &mut dyn DeltaSink,
    ) {
        if let Some(text) = &body.text {
            self.text(wire_index, text.as_str(), sink);
        } else if let Some(call) = &body.tool_use {
            self.input(wire_index, call.input.as_str(), sink);
        } else if let Some(reasoning) = &body.reasoning_content {
            self.reasoning(wire_index, reasoning, sink);
        } else if let Some(citation) = body.citation {
            let block = self.find_or_add(wire_index, Kind::Citations);
            if let Some(block) =
                block.filter(|it| !it.closed && matches!(it.kind, Kind::Text | Kind::Citations))
            {
                sink.withheld(block.index, citation.get().len());
                block.gather(citation.get());
            }
        } else if let Some(items) = &body.tool_result {
            let block = self.find(wire_index);
            if let Some(block) = block.filter(|it| !it.closed && it.kind == Kind::ServerResult) {
                for item in items {
                    sink.withheld(block.index, item.get().len());
                    block.gather(item.get());
                }
            }
        }
    }

    /// A block closes, once.
    pub(super) fn stop(&mut self, wire_index: u64, sink: &mut dyn DeltaSink) {
        let told = self.told;
        let Some(block) = self.find(wire_index).filter(|block| !block.closed) else { return };
        if block.kind == Kind::Orphan {
            return;
        }
        block.closed = true;
        let gathered = std::mem::take(&mut block.gathered);
        let mut index = block.index;
        match block.kind {
            Kind::Text => {
                if !gathered.is_empty() {
                    let json = format!("{{\"citations\":[{gathered}]}}");
                    sink.delta(Delta::ProviderData { index, json: &json });
                }
            }
            Kind::Redacted => {
                index = told;
                let start = BlockStart::RedactedThinking { data: &gathered };
                sink.delta(Delta::BlockStart { index, start });
                self.told += 1;
            }
            Kind::Citations => {
                index = told;
                let json = format!("{{\"citationsContent\":{{\"citations\":[{gathered}]}}}}");
                let start = BlockStart::Opaque { raw_json: &json };
                sink.delta(Delta::BlockStart { index, start });
                self.told += 1;
            }
            Kind::ServerCall => {
                let input = if gathered.is_empty() { "{}" } else { &gathered };
                if block.lossy || !is_object(input) {
                    return;
                }
                let json = format!("{{\"toolUse\":{}}}", with_field(&block.start, "input", input));
                sink.delta(Delta::OpaqueJson { index, json: &json });
            }
            Kind::ServerResult => {
                let content = format!("[{gathered}]");
                let result = with_field(&block.start, "content", &content);
                let json = format!("{{\"toolResult\":{result}}}");
                sink.delta(Delta::OpaqueJson { index, json: &json });
            }
            Kind::Call if block.lossy => return,
            Kind::Call | Kind::Thinking | Kind::Orphan => {}
        }
        sink.delta(Delta::BlockStop { index });
    }

    /// A block that came whole.
    pub(super) fn whole(
        &mut self,
        wire_index: u64,
        raw: &RawValue,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        let block: WholeBlock<'_> =
            serde_json::from_str(raw.get()).map_err(|_| malformed("a content block"))?;
        if let Some(text) = &block.text {
            self.text(wire_index, text.as_str(), sink);
        } else if let Some(call) = block.tool_use.as_ref().filter(|call| call.is_ours()) {
            let start =
                BlockStart::ToolCall { id: call.tool_use_id.as_str(), name: call.name.as_str() };
            self.calls = true;
            self.begin(wire_index, Kind::Call, start, sink);
            self.input(wire_index, call.input.map_or("", RawValue::get), sink);
        } else if let Some(reasoning) = block.reasoning_content {
            let piece = reasoning.reasoning_text.unwrap_or_default();
            let redacted_content = reasoning.redacted_content;
            self.reasoning(wire_index, &ReasoningDelta { redacted_content, ..piece }, sink);
        } else if let Some(cited) = block.citations_content.filter(|it| !it.content.is_empty()) {
            for part in &cited.content {
                self.text(wire_index, part.text.as_str(), sink);
            }
            let list = cited.citations.map_or("", RawValue::get).trim();
            let items = list.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
            if let (Some(items), Some(block)) = (items, self.find(wire_index))
                && !items.trim().is_empty()
            {
                sink.withheld(block.index, items.len());
                block.gather(items);
            }
        } else {
            let start = BlockStart::Opaque { raw_json: raw.get() };
            // Whole already: there is nothing to add when it stops.
            self.begin(wire_index, Kind::Thinking, start, sink);
        }
        self.stop(wire_index, sink);
        Ok(())
    }

    fn text(&mut self, wire_index: u64, text: &str, sink: &mut dyn DeltaSink) {
        if text.is_empty() {
            return;
        }
        let told = self.told;
        let index = match self.find(wire_index) {
            Some(block) if block.closed => return,
            Some(block) if block.kind == Kind::Text => block.index,
            // Its citations came before it.
            Some(block) if block.kind == Kind::Citations => {
                block.kind = Kind::Text;
                block.index = told;
                self.told += 1;
                sink.delta(Delta::BlockStart { index: told, start: BlockStart::Text });
                told
            }
            Some(_) => return,
            None => self.begin(wire_index, Kind::Text, BlockStart::Text, sink),
        };
        sink.delta(Delta::Text { index, text });
    }

    /// More of a call's arguments. Without the call's beginning nobody knows what came before them.
    fn input(&mut self, wire_index: u64, json: &str, sink: &mut dyn DeltaSink) {
        if json.is_empty() {
            return;
        }
        let block = self.find_or_add(wire_index, Kind::Orphan);
        let Some(block) = block.filter(|block| !block.closed) else { return };
        match block.kind {
            Kind::Call => {
                let index = block.index;
                sink.delta(Delta::Arguments { index, json });
            }
            Kind::ServerCall => {
                sink.withheld(block.index, json.len());
                block.gathered.push_str(json);
            }
            Kind::Text
            | Kind::Thinking
            | Kind::Redacted
            | Kind::ServerResult
            | Kind::Citations
            | Kind::Orphan => {}
        }
    }

    fn reasoning(&mut self, wire_index: u64, piece: &ReasoningDelta<'_>, sink: &mut dyn DeltaSink) {
        let (text, signature) = (piece.text.as_str(), piece.signature.as_str());
        let redacted = piece.redacted_content.as_str();
        if !redacted.is_empty() {
            let block = self.find_or_add(wire_index, Kind::Redacted);
            if let Some(block) = block.filter(|it| !it.closed && it.kind == Kind::Redacted) {
                block.gathered = joined(&block.gathered, redacted);
            }
        }
        if text.is_empty() && signature.is_empty() {
            return;
        }
        let index = match self.find(wire_index) {
            Some(block) if block.closed || block.kind != Kind::Thinking => return,
            Some(block) => block.index,
            None => self.begin(wire_index, Kind::Thinking, BlockStart::Thinking, sink),
        };
        if !text.is_empty() {
            sink.delta(Delta::Thinking { index, text });
        }
        if !signature.is_empty() {
            sink.delta(Delta::Signature { index, signature });
        }
    }

    /// A block of a provider-run tool begins.
    fn begin_opaque(
        &mut self,
        wire_index: u64,
        kind: Kind,
        name: &str,
        raw: &RawValue,
        sink: &mut dyn DeltaSink,
    ) {
        let json = format!("{{\"{name}\":{}}}", raw.get());
        self.begin(wire_index, kind, BlockStart::Opaque { raw_json: &json }, sink);
        if let Some(block) = self.find(wire_index) {
            raw.get().clone_into(&mut block.start);
        }
    }

    /// Adds a block and tells its beginning; gives our number of it.
    fn begin(
        &mut self,
        wire_index: u64,
        kind: Kind,
        start: BlockStart<'_>,
        sink: &mut dyn DeltaSink,
    ) -> u32 {
        let index = self.told;
        self.told += 1;
        sink.delta(Delta::BlockStart { index, start });
        self.add(wire_index, kind, index);
        index
    }

    /// The block of a provider's index; where there is none a new one, not yet told.
    fn find_or_add(&mut self, wire_index: u64, kind: Kind) -> Option<&mut Block> {
        if self.find(wire_index).is_none() {
            self.add(wire_index, kind, u32::MAX);
        }
        self.find(wire_index)
    }

    fn add(&mut self, wire_index: u64, kind: Kind, index: u32) {
        self.positions.insert(wire_index, self.blocks.len());
        self.blocks.push(Block {
            wire_index,
            index,
            kind,
            closed: false,
            lossy: false,
            start: String::new(),
            gathered: String::new(),
        });
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
    /// Adds an item to a list without its brackets.
    fn gather(&mut self, item: &str) {
        if !self.gathered.is_empty() {
            self.gathered.push(',');
        }
        self.gathered.push_str(item);
    }
}

/// A JSON object's text with one more field.
fn with_field(object: &str, name: &str, value: &str) -> String {
    let open = object.trim().strip_suffix('}').unwrap_or(object).trim_end();
    let comma = if open.ends_with('{') { "" } else { "," };
    format!("{open}{comma}\"{name}\":{value}}}")
}

/// Two pieces of base64 as the base64 of the bytes of both. The first piece stays byte for byte as it came.
fn joined(before: &str, piece: &str) -> String {
    if before.is_empty() {
        return piece.to_owned();
    }
    match (STANDARD.decode(before), STANDARD.decode(piece)) {
        (Ok(mut bytes), Ok(more)) => {
            bytes.extend_from_slice(&more);
            STANDARD.encode(bytes)
        }
        _ => format!("{before}{piece}"),
    }
}
