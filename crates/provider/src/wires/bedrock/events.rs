//! Converts Converse's events of content blocks to neutral deltas.
//!
//! Only calls and provider-run tools have a start event; text and reasoning begin with their first delta. Tolerates
//! duplicated, reordered and unknown events. It must never close a block whose content may have been lost.

use serde_json::value::RawValue;

use super::block::{Kind, joined, whole_call};
use super::blocks::Blocks;
use super::wire::{Block as WholeBlock, DeltaBody, ReasoningDelta, Start, ToolUse};
use crate::json::{object_of, with_field};
use crate::wire::malformed;
use crate::{BlockStart, Delta, DeltaSink, Failure};

impl Blocks {
    /// Begins a block. One that has begun is not begun again; an index used again after its block closed is a new block.
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

    /// Adds to a block.
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

    /// Closes a block, once.
    pub(super) fn stop(&mut self, wire_index: u64, sink: &mut dyn DeltaSink) {
        let emitted = self.emitted;
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
                    let json = object_of("citations", &format!("[{gathered}]"));
                    sink.delta(Delta::ProviderData { index, json: &json });
                }
            }
            Kind::Redacted => {
                index = emitted;
                let start = BlockStart::RedactedThinking { data: &gathered };
                sink.delta(Delta::BlockStart { index, start });
                self.emitted += 1;
            }
            Kind::Citations => {
                index = emitted;
                let citations = object_of("citations", &format!("[{gathered}]"));
                let json = object_of("citationsContent", &citations);
                let start = BlockStart::Opaque { raw_json: &json };
                sink.delta(Delta::BlockStart { index, start });
                self.emitted += 1;
            }
            Kind::ServerCall => {
                let Some(json) = block.server_call(&gathered) else { return };
                sink.delta(Delta::OpaqueJson { index, json: &json });
            }
            // It closes when it is decided.
            Kind::Undecided => {
                block.gathered = gathered;
                return;
            }
            Kind::ServerResult => {
                let content = format!("[{gathered}]");
                let result = with_field(&block.start, "content", &content).unwrap_or_default();
                let json = object_of("toolResult", &result);
                sink.delta(Delta::OpaqueJson { index, json: &json });
            }
            Kind::Call if block.lossy => return,
            Kind::Call | Kind::Thinking | Kind::Orphan => {}
        }
        sink.delta(Delta::BlockStop { index });
    }

    /// Reads a whole block.
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
            // It is whole already: its stop adds nothing.
            self.begin(wire_index, Kind::Thinking, start, sink);
        }
        self.stop(wire_index, sink);
        Ok(())
    }

    fn text(&mut self, wire_index: u64, text: &str, sink: &mut dyn DeltaSink) {
        if text.is_empty() {
            return;
        }
        let emitted = self.emitted;
        let index = match self.find(wire_index) {
            Some(block) if block.closed => return,
            Some(block) if block.kind == Kind::Text => block.index,
            // Its citations were before it.
            Some(block) if block.kind == Kind::Citations => {
                block.kind = Kind::Text;
                block.index = emitted;
                self.emitted += 1;
                sink.delta(Delta::BlockStart { index: emitted, start: BlockStart::Text });
                emitted
            }
            Some(_) => return,
            None => self.begin(wire_index, Kind::Text, BlockStart::Text, sink),
        };
        sink.delta(Delta::Text { index, text });
    }

    /// Adds to a call's arguments. Without the start of the call the earlier fragments are unknown.
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
}
