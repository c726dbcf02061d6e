//! The content blocks of one response, and the owner of each call: a tool of the context, or one that the provider runs.
//!
//! It must never read an event.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::block::{Block, Kind, beside};
use super::wire::ToolUse;
use crate::json::object_of;
use crate::{BlockStart, Delta, DeltaSink, OfferedTools};

/// The blocks of one response. The neutral ones are numbered in the order in which they are emitted.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    pub(super) blocks: Vec<Block>,
    /// The newest block of each of the provider's indexes.
    pub(super) positions: HashMap<u64, usize>,
    pub(super) emitted: u32,
    pub(super) calls: bool,
    pub(super) offered: OfferedTools,
    /// The undecided calls, by their ids.
    pub(super) undecided: HashMap<String, usize>,
}

impl Blocks {
    pub(super) fn new(offered: OfferedTools) -> Self {
        Self { offered, ..Self::default() }
    }

    pub(super) fn any_begun(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Whether a tool of the context was called.
    pub(super) fn any_calls(&self) -> bool {
        self.calls
    }

    /// Stores the unknown members of the call that has just begun.
    pub(super) fn attach(&self, raw: &RawValue, sink: &mut dyn DeltaSink) {
        if let Some(json) = beside(raw.get()) {
            sink.delta(Delta::ProviderData { index: self.emitted.saturating_sub(1), json: &json });
        }
    }

    /// The kind of a new call.
    pub(super) fn kind_of(&self, call: &ToolUse<'_>) -> Kind {
        let name = call.name.as_str();
        if !call.is_ours() {
            Kind::ServerCall
        } else if name.is_empty() || self.offered.has(name) {
            Kind::Call
        } else {
            Kind::Undecided
        }
    }

    /// Records an undecided call: its result, or the end of the message, decides.
    pub(super) fn await_result(&mut self, kind: Kind, call: &ToolUse<'_>) {
        if kind == Kind::Undecided {
            let last = self.blocks.len().saturating_sub(1);
            self.undecided.insert(call.tool_use_id.as_str().to_owned(), last);
        }
    }

    /// Records a provider-run result: its call was the provider's own.
    pub(super) fn answered(&mut self, result: &RawValue, sink: &mut dyn DeltaSink) {
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

    /// Ends the message: undecided calls without a provider's result are of tools of the context.
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

    /// Begins a block of a provider-run tool.
    pub(super) fn begin_opaque(
        &mut self,
        wire_index: u64,
        kind: Kind,
        name: &str,
        raw: &RawValue,
        sink: &mut dyn DeltaSink,
    ) {
        let json = object_of(name, raw.get());
        self.begin(wire_index, kind, BlockStart::Opaque { raw_json: &json }, sink);
        if let Some(block) = self.find(wire_index) {
            raw.get().clone_into(&mut block.start);
        }
    }

    /// Adds a block and emits its start; returns its neutral number.
    pub(super) fn begin(
        &mut self,
        wire_index: u64,
        kind: Kind,
        start: BlockStart<'_>,
        sink: &mut dyn DeltaSink,
    ) -> u32 {
        let index = self.emitted;
        self.emitted += 1;
        sink.delta(Delta::BlockStart { index, start });
        self.add(wire_index, kind, index);
        index
    }

    /// The block of a provider's index, or a new one that is not emitted yet.
    pub(super) fn find_or_add(&mut self, wire_index: u64, kind: Kind) -> Option<&mut Block> {
        if self.find(wire_index).is_none() {
            self.add(wire_index, kind, u32::MAX);
        }
        self.find(wire_index)
    }

    pub(super) fn add(&mut self, wire_index: u64, kind: Kind, index: u32) {
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

    /// The newest block of a provider's index; nearly always the one that began last.
    pub(super) fn find(&mut self, wire_index: u64) -> Option<&mut Block> {
        let last = self.blocks.len().checked_sub(1)?;
        let position = match self.blocks.get(last) {
            Some(block) if block.wire_index == wire_index => last,
            _ => *self.positions.get(&wire_index)?,
        };
        self.blocks.get_mut(position)
    }
}
