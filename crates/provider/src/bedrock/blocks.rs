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
use crate::json::{is_object, with_field};
use crate::members::Members;
use crate::{BlockStart, Delta, DeltaSink, Failure, OfferedTools};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    /// Encrypted reasoning: told when it is whole.
    Redacted,
    Call,
    /// A call of a tool that the provider runs.
    ServerCall,
    /// A call of a tool that was not offered: the provider's where its result follows, else ours.
    Undecided,
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
    offered: OfferedTools,
    /// Where the calls are that are not decided on, by their ids.
    undecided: HashMap<String, usize>,
}

impl Blocks {
    pub(super) fn new(offered: OfferedTools) -> Self {
        Self { offered, ..Self::default() }
    }

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
            match self.kind_of(&call) {
                Kind::Call => {
                    let (id, name) = (call.tool_use_id.as_str(), call.name.as_str());
                    self.calls = true;
                    self.begin(wire_index, Kind::Call, BlockStart::ToolCall { id, name }, sink);
                    self.attach(raw, sink);
                }
                kind => {
                    self.begin_opaque(wire_index, kind, "toolUse", raw, sink);
                    self.await_result(kind, &call);
                }
            }
            if let Some(block) = self.find(wire_index) {
                block.lossy = lossy;
            }
        } else if let Some(raw) = start.tool_result {
            self.answered(raw, sink);
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
                let Some(json) = block.server_call(&gathered) else { return };
                sink.delta(Delta::OpaqueJson { index, json: &json });
            }
            // It closes when it is decided on.
            Kind::Undecided => {
                block.gathered = gathered;
                return;
            }
            Kind::ServerResult => {
                let content = format!("[{gathered}]");
                let result = with_field(&block.start, "content", &content).unwrap_or_default();
                let json = format!("{{\"toolResult\":{result}}}");
                sink.delta(Delta::OpaqueJson { index, json: &json });
            }
            Kind::Call if block.lossy => return,
            Kind::Call | Kind::Thinking | Kind::Orphan => {}
        }
        sink.delta(Delta::BlockStop { index });
    }

    /// Keeps what the call that has just begun has beside what is known of it.
    fn attach(&self, raw: &RawValue, sink: &mut dyn DeltaSink) {
        if let Some(json) = beside(raw.get()) {
            sink.delta(Delta::ProviderData { index: self.told.saturating_sub(1), json: &json });
        }
    }

    /// What a call is that begins.
    fn kind_of(&self, call: &ToolUse<'_>) -> Kind {
        let name = call.name.as_str();
        if !call.is_ours() {
            Kind::ServerCall
        } else if name.is_empty() || self.offered.has(name) {
            Kind::Call
        } else {
            Kind::Undecided
        }
    }

    /// A call that has just begun is decided on when its result is there, or the end.
    fn await_result(&mut self, kind: Kind, call: &ToolUse<'_>) {
        if kind == Kind::Undecided {
            let last = self.blocks.len().saturating_sub(1);
            self.undecided.insert(call.tool_use_id.as_str().to_owned(), last);
        }
    }

    /// The provider brings the result of a call: the call was its own.
    fn answered(&mut self, result: &RawValue, sink: &mut dyn DeltaSink) {
        let Ok(ToolUse { tool_use_id, .. }) = serde_json::from_str(result.get()) else { return };
        let position = self.undecided.remove(tool_use_id.as_str());
        let Some(block) = position.and_then(|at| self.blocks.get_mut(at)) else { return };
        block.kind = Kind::ServerCall;
        if let Some(json) = block.server_call(&block.gathered).filter(|_| block.closed) {
            let index = block.index;
            sink.delta(Delta::OpaqueJson { index, json: &json });
            sink.delta(Delta::BlockStop { index });
        }
    }

    /// The message is over: the calls that the provider brought no result for are ours.
    pub(super) fn decide(&mut self, sink: &mut dyn DeltaSink) {
        for block in &mut self.blocks {
            if block.kind != Kind::Undecided {
                continue;
            }
            block.kind = Kind::Call;
            self.calls = true;
            let index = block.index;
            let call = serde_json::from_str::<ToolUse<'_>>(&block.start).unwrap_or_default();
            let (id, name) = (call.tool_use_id.as_str(), call.name.as_str());
            sink.delta(Delta::BecameCall { index, id, name });
            if let Some(json) = beside(&block.start) {
                sink.delta(Delta::ProviderData { index, json: &json });
            }
            if !block.gathered.is_empty() {
                sink.delta(Delta::Arguments { index, json: &block.gathered });
            }
            if block.closed && !block.lossy {
                sink.delta(Delta::BlockStop { index });
            }
        }
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
        } else if let Some((raw, call)) = whole_call(block.tool_use)
            && call.is_ours()
        {
            let (id, name) = (call.tool_use_id.as_str(), call.name.as_str());
            if self.kind_of(&call) == Kind::Call {
                self.calls = true;
                self.begin(wire_index, Kind::Call, BlockStart::ToolCall { id, name }, sink);
                self.attach(raw, sink);
            } else {
                self.begin_opaque(wire_index, Kind::Undecided, "toolUse", raw, sink);
                self.await_result(Kind::Undecided, &call);
            }
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
            if let Some(result) = block.tool_result {
                self.answered(result, sink);
            }
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
            Kind::ServerCall | Kind::Undecided => {
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

    /// The whole block of a call that the provider runs; `None` where its input is not whole.
    fn server_call(&self, input: &str) -> Option<String> {
        let input = if input.is_empty() { "{}" } else { input };
        if self.lossy || !is_object(input) {
            return None;
        }
        Some(format!("{{\"toolUse\":{}}}", with_field(&self.start, "input", input)?))
    }
}

/// What a call has beside what is known of it.
fn beside(call: &str) -> Option<String> {
    Members::of(call, |name| matches!(name, "toolUseId" | "name" | "input")).object("")
}

/// A call that came whole, as it stands and as it is understood.
fn whole_call(raw: Option<&RawValue>) -> Option<(&RawValue, ToolUse<'_>)> {
    Some((raw?, serde_json::from_str(raw?.get()).ok()?))
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
