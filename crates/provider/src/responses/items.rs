//! The output items of one response: provider events to neutral deltas.
//!
//! A finished item carries the truth; what its fragments already told is not told again. Tolerates duplicated, reordered
//! and unknown events. It must never close a call whose arguments may have been lost.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::item::{Item, ItemKind, Part, Place, Undecided, parts_of, read};
use super::wire::{ItemBody, Output, PartBody};
use super::{failure, identity};
use crate::json::write_string;
use crate::{BlockStart, Delta, DeltaSink, Failure, OfferedTools};

/// Which item an event is about: by its place, else by its id, else the latest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) output_index: Option<u64>,
    pub(super) item_id: &'a str,
}

/// The items of one response. Blocks are numbered in the order they began.
#[derive(Debug, Default)]
pub(super) struct Items {
    items: Vec<Item>,
    /// The newest item at each place of the output.
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
    blocks: u32,
    refused: bool,
    offered: OfferedTools,
    /// The calls whose results the provider brought.
    answered: HashSet<String>,
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

    /// An item begins. What it holds already is not taken: it may be incomplete, and comes again when it is done.
    pub(super) fn added(
        &mut self,
        of: Of<'_>,
        raw: &RawValue,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        let (kind, body) = read(raw)?;
        if self.is_known(of, &body) {
            return Ok(());
        }
        self.begin(of.output_index, kind, &body, raw, sink);
        Ok(())
    }

    /// More of an item. Visible text for an item that never began begins it; a call is begun by nothing but itself.
    pub(super) fn delta(&mut self, of: Of<'_>, place: Place, text: &str, sink: &mut dyn DeltaSink) {
        if let Some(position) = self.position_for(of, place, sink) {
            self.push(position, place, text, sink);
        }
    }

    /// One text of an item is whole.
    pub(super) fn text_done(
        &mut self,
        of: Of<'_>,
        place: Place,
        text: &str,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        match self.position_for(of, place, sink) {
            Some(position) => self.settle(position, place, text, sink),
            None => Ok(()),
        }
    }

    /// An item is done: what was not told of it yet is told, and its blocks close.
    pub(super) fn done(
        &mut self,
        of: Of<'_>,
        raw: &RawValue,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        let (kind, body) = read(raw)?;
        let content = parts_of(body.content.as_deref())?;
        let summary = parts_of(body.summary.as_deref())?;
        let id = body.id.as_str();
        let known = self.find(Of { output_index: of.output_index, item_id: id }, false);
        let is_placed = of.output_index.is_some() || !id.is_empty();
        let position = match known.and_then(|at| Some((at, self.items.get(at)?))) {
            Some((_, item)) if item.closed && is_placed && (item.id == id || id.is_empty()) => {
                return Ok(());
            }
            Some((at, item)) if !item.closed && item.kind == kind => at,
            Some(_) | None => self.begin(of.output_index, kind, &body, raw, sink),
        };
        if let Some(item) = self.items.get_mut(position) {
            // Some gateways give an item another id in every event; a repetition of this one has this one's.
            id.clone_into(&mut item.id);
        }
        let is_cut = body.status.as_str() == "incomplete";
        match kind {
            ItemKind::Message => self.finish_message(position, &content, raw, sink)?,
            ItemKind::Reasoning => {
                let places = self.places(position, Place::Summary, summary.len());
                for (place, part) in places.zip(&summary) {
                    self.settle(position, place, part.said(), sink)?;
                }
                let places = self.places(position, Place::Reasoning, content.len());
                for (place, part) in places.zip(&content) {
                    self.settle(position, place, part.said(), sink)?;
                }
                self.finish(position, (!is_cut).then(|| raw.get()), true, sink);
            }
            ItemKind::Call | ItemKind::CustomCall if self.is_undecided(position) => {
                let (place, truth) = match kind {
                    ItemKind::CustomCall => (Place::Input, Cow::Borrowed(body.input.as_str())),
                    _ => (Place::Arguments, body.arguments()),
                };
                self.settle(position, place, &truth, sink)?;
                self.hold(position, raw, is_cut);
            }
            ItemKind::Call => {
                self.identify(position, &body, sink);
                self.settle(position, Place::Arguments, &body.arguments(), sink)?;
                let kept = identity::keep_call(raw.get());
                self.finish(position, kept.as_deref(), !is_cut, sink);
            }
            ItemKind::CustomCall => {
                self.identify(position, &body, sink);
                self.settle(position, Place::Input, body.input.as_str(), sink)?;
                self.tell_input(position, sink);
                let kept = identity::keep_call(raw.get());
                self.finish(position, kept.as_deref(), !is_cut, sink);
            }
            ItemKind::Other => {
                if let Ok(output) = serde_json::from_str::<Output<'_>>(raw.get())
                    && output.kind.as_str().ends_with("_output")
                {
                    self.answered.insert(output.call_id.as_str().to_owned());
                }
                if let Some(item) = self.items.get(position) {
                    sink.delta(Delta::OpaqueJson { index: item.block, json: raw.get() });
                }
                self.finish(position, None, true, sink);
            }
        }
        Ok(())
    }

    /// The whole output at the end: what no event told of is taken from it.
    pub(super) fn complete(
        &mut self,
        output: &[&RawValue],
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        let told_nothing = !self.any_begun();
        for (index, raw) in (0..).zip(output) {
            let of = Of { output_index: Some(index), item_id: "" };
            let is_open = || {
                let (kind, body) = read(raw).ok()?;
                let item = self.items.get(self.find(of, false)?)?;
                let same = item.id == body.id.as_str() || item.id.is_empty();
                Some(!item.closed && item.kind == kind && same)
            };
            if told_nothing || is_open() == Some(true) {
                self.done(of, raw, sink)?;
            }
        }
        self.decide(sink);
        Ok(())
    }

    fn is_undecided(&self, position: usize) -> bool {
        self.items.get(position).is_some_and(|item| item.undecided.is_some())
    }

    /// Keeps the finished item of a call that is decided on later.
    fn hold(&mut self, position: usize, raw: &RawValue, is_cut: bool) {
        let Some(item) = self.items.get_mut(position) else { return };
        if let Some(undecided) = &mut item.undecided {
            raw.get().clone_into(&mut undecided.raw);
            item.closed |= !is_cut;
        }
    }

    /// Settles whose the calls of tools are that were not offered: the provider's where it brought the result, else ours,
    /// which the model is told are calls of an unknown tool. A custom call is also the provider's where the provider has
    /// tools to run and nobody described this one as a client's, or where the model said something with its result.
    fn decide(&mut self, sink: &mut dyn DeltaSink) {
        let mut said_after = false;
        for position in (0..self.items.len()).rev() {
            let Some(item) = self.items.get_mut(position) else { continue };
            if let Some(undecided) = item.undecided.take() {
                let is_run = self.answered.contains(&undecided.call_id)
                    || (item.kind == ItemKind::CustomCall
                        && (said_after || self.offered.has_provider_run(&undecided.name)));
                if is_run {
                    item.kind = ItemKind::Other;
                    if item.closed {
                        let (index, json) = (item.block, undecided.raw.as_str());
                        sink.delta(Delta::OpaqueJson { index, json });
                        sink.delta(Delta::BlockStop { index });
                    }
                } else {
                    tell_call(item, &undecided, sink);
                }
            }
            let is_said = |part: &Part| !part.text.is_empty();
            said_after |= item.kind == ItemKind::Message && item.parts.iter().any(is_said);
        }
    }

    fn finish_message(
        &mut self,
        position: usize,
        content: &[PartBody<'_>],
        raw: &RawValue,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        let raw_parts = read(raw)?.1.content.unwrap_or_default();
        let places = self.places(position, Place::Content, content.len());
        for ((place, part), raw_part) in places.zip(content).zip(raw_parts) {
            self.refused |= part.is_refusal() && !part.said().is_empty();
            self.settle(position, place, part.said(), sink)?;
            let item = self.items.get(position);
            let told = item.and_then(|item| item.parts.iter().find(|part| part.place == place));
            if let Some(told) = told.filter(|told| !told.text.is_empty()) {
                let json = identity::keep_text(raw.get(), raw_part.get());
                sink.delta(Delta::ProviderData { index: told.block, json: &json });
            }
        }
        self.finish(position, None, true, sink);
        Ok(())
    }

    /// Where the `count` parts of a finished item were told, in order. Some servers count a message's parts on from those
    /// of the reasoning before it: where a fragment's index is none of a finished part, order decides.
    fn places(
        &self,
        position: usize,
        place: fn(u64) -> Place,
        count: usize,
    ) -> impl Iterator<Item = Place> + use<> {
        let indexes: Vec<Place> = (0..).map(place).take(count).collect();
        let parts = self.items.get(position).map_or(&[][..], |item| &item.parts);
        // An item has texts of several kinds only where it reasons.
        let kind = std::mem::discriminant(&place(0));
        let told = parts.iter().map(|part| part.place);
        let told: Vec<Place> = told.filter(|it| std::mem::discriminant(it) == kind).collect();
        if told.iter().all(|place| indexes.contains(place)) {
            return indexes.into_iter();
        }
        let untold = (1 << 32..).map(place);
        told.into_iter().chain(untold).take(count).collect::<Vec<_>>().into_iter()
    }

    /// Closes an item's blocks. A call that was cut stays open, so that it is never run.
    fn finish(
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

    /// The id and name of a call, where they came late.
    fn identify(&mut self, position: usize, body: &ItemBody<'_>, sink: &mut dyn DeltaSink) {
        if let Some(item) = self.items.get(position) {
            let (id, name) = (body.call_id(), body.name.as_str());
            sink.delta(Delta::CallIdentity { index: item.block, id, name });
        }
    }

    /// A custom call's text as the arguments of a tool that takes one `input`.
    fn tell_input(&mut self, position: usize, sink: &mut dyn DeltaSink) {
        let Some(item) = self.items.get(position) else { return };
        let text = item.parts.first().map_or("", |part| part.text.as_str());
        sink.delta(Delta::Arguments { index: item.block, json: &as_arguments(text) });
    }

    /// Tells what of a whole text its fragments did not. Shown text that says otherwise stays; a call's may not.
    fn settle(
        &mut self,
        position: usize,
        place: Place,
        truth: &str,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        let Some(item) = self.items.get(position).filter(|item| !item.closed) else {
            return Ok(());
        };
        let part = item.parts.iter().find(|part| part.place == place);
        let told = part.map_or("", |part| part.text.as_str());
        match truth.strip_prefix(told) {
            Some(rest) => {
                self.push(position, place, rest, sink);
                Ok(())
            }
            None if matches!(place, Place::Arguments | Place::Input) && !truth.is_empty() => {
                Err(failure::inconsistent())
            }
            None => Ok(()),
        }
    }

    fn push(&mut self, position: usize, place: Place, text: &str, sink: &mut dyn DeltaSink) {
        let next_block = self.blocks;
        let Some(item) = self.items.get_mut(position) else { return };
        if item.closed || text.is_empty() || !item.takes(place) {
            return;
        }
        let at = match item.parts.iter().rposition(|part| part.place == place) {
            Some(at) => at,
            None => {
                let shares = !item.parts.is_empty() && item.kind == ItemKind::Message;
                let block = if shares { next_block } else { item.block };
                if shares {
                    self.blocks += 1;
                    sink.delta(Delta::BlockStart { index: block, start: BlockStart::Text });
                } else if !item.parts.is_empty() {
                    // Between two parts of what was reasoned; each is a paragraph with a title of its own.
                    sink.delta(Delta::Thinking { index: block, text: "\n\n" });
                }
                item.parts.push(Part { place, block, text: String::new() });
                item.parts.len() - 1
            }
        };
        let Some(part) = item.parts.get_mut(at) else { return };
        part.text.push_str(text);
        let index = part.block;
        match place {
            Place::Content(_) => sink.delta(Delta::Text { index, text }),
            Place::Summary(_) | Place::Reasoning(_) => sink.delta(Delta::Thinking { index, text }),
            Place::Arguments if item.undecided.is_none() => {
                sink.delta(Delta::Arguments { index, json: text });
            }
            // Not JSON yet, or not ours for all we know.
            Place::Input | Place::Arguments => sink.withheld(index, text.len()),
        }
    }

    fn begin(
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

    fn insert(
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

    /// Whether an item that is said to begin has begun before. At a place used again after its item closed, another id
    /// is another item: some servers give all their items one place.
    fn is_known(&self, of: Of<'_>, body: &ItemBody<'_>) -> bool {
        let id = body.id.as_str();
        let of = Of { output_index: of.output_index, item_id: id };
        let item = self.find(of, true).and_then(|at| self.items.get(at));
        item.is_some_and(|item| !item.closed || id.is_empty() || item.id == id)
    }

    /// The item an event is about. `exact`: never the latest one for want of a better.
    fn find(&self, of: Of<'_>, exact: bool) -> Option<usize> {
        match of.output_index {
            Some(index) => self.by_index.get(&index).copied(),
            None if !of.item_id.is_empty() => self.by_id.get(of.item_id).copied(),
            None if exact => None,
            None => self.items.len().checked_sub(1),
        }
    }

    fn position_for(
        &mut self,
        of: Of<'_>,
        place: Place,
        sink: &mut dyn DeltaSink,
    ) -> Option<usize> {
        if let Some(position) = self.find(of, false) {
            return Some(position);
        }
        let (kind, start) = match place {
            Place::Content(_) => (ItemKind::Message, BlockStart::Text),
            Place::Summary(_) | Place::Reasoning(_) => (ItemKind::Reasoning, BlockStart::Thinking),
            // Nobody knows which tool yet; the finished item tells all of it.
            Place::Arguments | Place::Input => return None,
        };
        Some(self.insert(of.output_index, of.item_id, kind, start, sink))
    }
}

/// Tells a call of a tool that nobody offered, as far as it came.
fn tell_call(item: &Item, undecided: &Undecided, sink: &mut dyn DeltaSink) {
    let index = item.block;
    let whole = serde_json::from_str::<ItemBody<'_>>(&undecided.raw).ok();
    let (id, name) = match &whole {
        Some(body) if !body.name.as_str().is_empty() => (body.call_id(), body.name.as_str()),
        Some(_) | None => (undecided.call_id.as_str(), undecided.name.as_str()),
    };
    sink.delta(Delta::BecameCall { index, id, name });
    let told = item.parts.first().map_or("", |part| part.text.as_str());
    let arguments: Cow<'_, str> = match (&whole, item.kind) {
        (Some(body), ItemKind::CustomCall) => as_arguments(body.input.as_str()).into(),
        (Some(body), _) => body.arguments(),
        (None, ItemKind::CustomCall) => as_arguments(told).into(),
        (None, _) => told.into(),
    };
    sink.delta(Delta::Arguments { index, json: &arguments });
    if let Some(json) = identity::keep_call(&undecided.raw) {
        sink.delta(Delta::ProviderData { index, json: &json });
    }
    if item.closed {
        sink.delta(Delta::BlockStop { index });
    }
}

/// A custom call's text as the arguments of a tool that takes one `input`.
fn as_arguments(text: &str) -> String {
    let mut json = b"{\"input\":".to_vec();
    write_string(&mut json, text);
    json.push(b'}');
    String::from_utf8_lossy(&json).into_owned()
}
