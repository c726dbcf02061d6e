//! The output of one response so far: its items, their blocks, and what was emitted.
//!
//! It must never read an event.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::item::{Item, ItemKind, Part, Slot, Undecided};
use super::wire::ItemBody;
use super::{failure, identity};
use crate::json::write_string;
use crate::{BlockStart, Delta, DeltaSink, Failure, OfferedTools};

/// The item of an event: by its index, else by its id, else the latest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) output_index: Option<u64>,
    pub(super) item_id: &'a str,
}

/// The items of one response. Blocks are numbered in the order they began.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) items: Vec<Item>,
    /// The newest item at each index of the output.
    pub(super) by_index: HashMap<u64, usize>,
    pub(super) by_id: HashMap<String, usize>,
    pub(super) blocks: u32,
    pub(super) refused: bool,
    pub(super) offered: OfferedTools,
    /// The calls with results from the provider.
    pub(super) answered: HashSet<String>,
}

impl Items {
    pub(super) fn new(offered: OfferedTools) -> Self {
        Self { offered, ..Self::default() }
    }

    pub(super) fn any_begun(&self) -> bool {
        !self.items.is_empty()
    }

    pub(super) fn has_calls(&self) -> bool {
        self.items.iter().any(Item::is_call)
    }

    /// Whether a call began and was never finished.
    pub(super) fn has_open_calls(&self) -> bool {
        self.items.iter().any(|item| item.is_call() && !item.closed)
    }

    /// Whether the model refused.
    pub(super) fn refused(&self) -> bool {
        self.refused
    }

    pub(super) fn refuse(&mut self) {
        self.refused = true;
    }

    /// Closes an item's blocks. A cut call stays open, so that it is never run.
    pub(super) fn finish(
        &mut self,
        position: usize,
        provider_data: Option<&str>,
        is_whole: bool,
        sink: &mut dyn DeltaSink,
    ) {
        let Some(item) = self.items.get_mut(position) else { return };
        if let Some(json) = provider_data {
            sink.delta(Delta::ProviderData { index: item.block, json });
        }
        if !is_whole {
            return;
        }
        item.closed = true;
        sink.delta(Delta::BlockStop { index: item.block });
        for part in item.parts.iter().filter(|part| part.block != item.block) {
            sink.delta(Delta::BlockStop { index: part.block });
        }
    }

    /// Emits the part of a whole text that its fragments did not. Emitted text that differs stays; arguments must not differ.
    pub(super) fn settle(
        &mut self,
        position: usize,
        slot: Slot,
        truth: &str,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        let Some(item) = self.items.get(position).filter(|item| !item.closed) else {
            return Ok(());
        };
        let part = item.parts.iter().find(|part| part.slot == slot);
        let emitted = part.map_or("", |part| part.text.as_str());
        match truth.strip_prefix(emitted) {
            Some(rest) => {
                self.push(position, slot, rest, sink);
                Ok(())
            }
            None if matches!(slot, Slot::Arguments | Slot::Input) && !truth.is_empty() => {
                Err(failure::inconsistent())
            }
            None => Ok(()),
        }
    }

    pub(super) fn push(
        &mut self,
        position: usize,
        slot: Slot,
        text: &str,
        sink: &mut dyn DeltaSink,
    ) {
        let next_block = self.blocks;
        let Some(item) = self.items.get_mut(position) else { return };
        if item.closed || text.is_empty() || !item.takes(slot) {
            return;
        }
        let at = match item.parts.iter().rposition(|part| part.slot == slot) {
            Some(at) => at,
            None => {
                let shares = !item.parts.is_empty() && item.kind == ItemKind::Message;
                let block = if shares { next_block } else { item.block };
                if shares {
                    self.blocks += 1;
                    sink.delta(Delta::BlockStart { index: block, start: BlockStart::Text });
                } else if !item.parts.is_empty() {
                    // Between two parts of a summary; each is a paragraph with its own title.
                    sink.delta(Delta::Thinking { index: block, text: "\n\n" });
                }
                item.parts.push(Part { slot, block, text: String::new() });
                item.parts.len() - 1
            }
        };
        let Some(part) = item.parts.get_mut(at) else { return };
        part.text.push_str(text);
        let index = part.block;
        match slot {
            Slot::Content(_) => sink.delta(Delta::Text { index, text }),
            Slot::Summary(_) | Slot::Reasoning(_) => sink.delta(Delta::Thinking { index, text }),
            Slot::Arguments if item.undecided.is_none() => {
                sink.delta(Delta::Arguments { index, json: text });
            }
            // Not JSON yet, or possibly not of the context.
            Slot::Input | Slot::Arguments => sink.withheld(index, text.len()),
        }
    }

    pub(super) fn begin(
        &mut self,
        output_index: Option<u64>,
        kind: ItemKind,
        body: &ItemBody<'_>,
        raw: &RawValue,
        sink: &mut dyn DeltaSink,
    ) -> usize {
        let start = match kind {
            ItemKind::Message => BlockStart::Text,
            ItemKind::Reasoning => BlockStart::Thinking,
            ItemKind::Call | ItemKind::CustomCall => {
                let (id, name) = (body.call_id(), body.name.as_str());
                if !name.is_empty() && !self.offered.has(name) {
                    let start = BlockStart::Opaque { raw_json: raw.get() };
                    let position = self.insert(output_index, body.id.as_str(), kind, start, sink);
                    if let Some(item) = self.items.get_mut(position) {
                        let (call_id, name) = (id.to_owned(), name.to_owned());
                        item.undecided = Some(Undecided { call_id, name, raw: String::new() });
                    }
                    return position;
                }
                BlockStart::ToolCall { id, name }
            }
            ItemKind::Other => BlockStart::Opaque { raw_json: raw.get() },
        };
        self.insert(output_index, body.id.as_str(), kind, start, sink)
    }

    pub(super) fn insert(
        &mut self,
        output_index: Option<u64>,
        id: &str,
        kind: ItemKind,
        start: BlockStart<'_>,
        sink: &mut dyn DeltaSink,
    ) -> usize {
        let position = self.items.len();
        let block = self.blocks;
        self.blocks += 1;
        sink.delta(Delta::BlockStart { index: block, start });
        let owned = id.to_owned();
        self.items.push(Item {
            id: owned,
            kind,
            block,
            parts: Vec::new(),
            closed: false,
            undecided: None,
        });
        if let Some(index) = output_index {
            self.by_index.insert(index, position);
        }
        if !id.is_empty() {
            self.by_id.insert(id.to_owned(), position);
        }
        position
    }

    /// Whether the item of a start event has begun before. At an index used again after its item closed, another id is another
    /// item: some servers send one index for all items.
    pub(super) fn is_known(&self, of: Of<'_>, body: &ItemBody<'_>) -> bool {
        let id = body.id.as_str();
        let of = Of { output_index: of.output_index, item_id: id };
        let item = self.find(of, true).and_then(|at| self.items.get(at));
        item.is_some_and(|item| !item.closed || id.is_empty() || item.id == id)
    }

    /// The item of an event. `exact`: never the latest one as a fallback.
    pub(super) fn find(&self, of: Of<'_>, exact: bool) -> Option<usize> {
        match of.output_index {
            Some(index) => self.by_index.get(&index).copied(),
            None if !of.item_id.is_empty() => self.by_id.get(of.item_id).copied(),
            None if exact => None,
            None => self.items.len().checked_sub(1),
        }
    }

    pub(super) fn position_for(
        &mut self,
        of: Of<'_>,
        slot: Slot,
        sink: &mut dyn DeltaSink,
    ) -> Option<usize> {
        if let Some(position) = self.find(of, false) {
            return Some(position);
        }
        let (kind, start) = match slot {
            Slot::Content(_) => (ItemKind::Message, BlockStart::Text),
            Slot::Summary(_) | Slot::Reasoning(_) => (ItemKind::Reasoning, BlockStart::Thinking),
            // The tool is unknown yet; the finished item has the whole call.
            Slot::Arguments | Slot::Input => return None,
        };
        Some(self.insert(of.output_index, of.item_id, kind, start, sink))
    }
}

/// Emits a call of an unknown tool, as far as it was received.
pub(super) fn emit_call(item: &Item, undecided: &Undecided, sink: &mut dyn DeltaSink) {
    let index = item.block;
    let whole = serde_json::from_str::<ItemBody<'_>>(&undecided.raw).ok();
    let (id, name) = match &whole {
        Some(body) if !body.name.as_str().is_empty() => (body.call_id(), body.name.as_str()),
        Some(_) | None => (undecided.call_id.as_str(), undecided.name.as_str()),
    };
    sink.delta(Delta::BecameCall { index, id, name });
    let emitted = item.parts.first().map_or("", |part| part.text.as_str());
    let arguments: Cow<'_, str> = match (&whole, item.kind) {
        (Some(body), ItemKind::CustomCall) => as_arguments(body.input.as_str()).into(),
        (Some(body), _) => body.arguments(),
        (None, ItemKind::CustomCall) => as_arguments(emitted).into(),
        (None, _) => emitted.into(),
    };
    sink.delta(Delta::Arguments { index, json: &arguments });
    if let Some(json) = identity::stored_call(&undecided.raw) {
        sink.delta(Delta::ProviderData { index, json: &json });
    }
    if item.closed {
        sink.delta(Delta::BlockStop { index });
    }
}

/// The text of a custom call as the arguments of a tool with one `input`.
pub(super) fn as_arguments(text: &str) -> String {
    let mut json = b"{\"input\":".to_vec();
    write_string(&mut json, text);
    json.push(b'}');
    String::from_utf8_lossy(&json).into_owned()
}
