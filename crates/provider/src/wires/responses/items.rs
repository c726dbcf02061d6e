//! The output items of one response: converts provider events to neutral deltas.
//!
//! A finished item is authoritative; text that its fragments already emitted is not emitted again. Tolerates duplicated,
//! reordered and unknown events. It must never close a call whose arguments may have been lost.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::identity;
use super::item::{ItemKind, Part, Slot, parts_of, read};
use super::output::{Items, Of, as_arguments, emit_call};
use super::wire::{ItemBody, Output, PartBody};
use crate::{Delta, DeltaSink, Failure};

impl Items {
    /// Begins an item. Its present content is ignored: it may be incomplete, and is repeated when it is done.
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

    /// Adds to an item. Visible text for an item that never began begins it; a call is begun only by its own event.
    pub(super) fn delta(&mut self, of: Of<'_>, slot: Slot, text: &str, sink: &mut dyn DeltaSink) {
        if let Some(position) = self.position_for(of, slot, sink) {
            self.push(position, slot, text, sink);
        }
    }

    /// Completes one text of an item.
    pub(super) fn text_done(
        &mut self,
        of: Of<'_>,
        slot: Slot,
        text: &str,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        match self.position_for(of, slot, sink) {
            Some(position) => self.settle(position, slot, text, sink),
            None => Ok(()),
        }
    }

    /// Completes an item: emits the rest of its content, and closes its blocks.
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
        let is_identified = of.output_index.is_some() || !id.is_empty();
        let position = match known.and_then(|at| Some((at, self.items.get(at)?))) {
            Some((_, item)) if item.closed && is_identified && (item.id == id || id.is_empty()) => {
                return Ok(());
            }
            Some((at, item)) if !item.closed && item.kind == kind => at,
            Some(_) | None => self.begin(of.output_index, kind, &body, raw, sink),
        };
        if let Some(item) = self.items.get_mut(position) {
            // Some gateways send another id with every event of an item; a repetition of this event has the same id.
            id.clone_into(&mut item.id);
        }
        let is_cut = body.status.as_str() == "incomplete";
        match kind {
            ItemKind::Message => self.finish_message(position, &content, raw, sink)?,
            ItemKind::Reasoning => {
                let slots = self.slots(position, Slot::Summary, summary.len());
                for (slot, part) in slots.zip(&summary) {
                    self.settle(position, slot, part.text(), sink)?;
                }
                let slots = self.slots(position, Slot::Reasoning, content.len());
                for (slot, part) in slots.zip(&content) {
                    self.settle(position, slot, part.text(), sink)?;
                }
                self.finish(position, (!is_cut).then(|| raw.get()), true, sink);
            }
            ItemKind::Call | ItemKind::CustomCall if self.is_undecided(position) => {
                let (slot, truth) = match kind {
                    ItemKind::CustomCall => (Slot::Input, Cow::Borrowed(body.input.as_str())),
                    _ => (Slot::Arguments, body.arguments()),
                };
                self.settle(position, slot, &truth, sink)?;
                self.hold(position, raw, is_cut);
            }
            ItemKind::Call => {
                self.identify(position, &body, sink);
                self.settle(position, Slot::Arguments, &body.arguments(), sink)?;
                let stored = identity::stored_call(raw.get());
                self.finish(position, stored.as_deref(), !is_cut, sink);
            }
            ItemKind::CustomCall => {
                self.identify(position, &body, sink);
                self.settle(position, Slot::Input, body.input.as_str(), sink)?;
                self.emit_input(position, sink);
                let stored = identity::stored_call(raw.get());
                self.finish(position, stored.as_deref(), !is_cut, sink);
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

    /// Applies the whole output at the end: content that no event had is added.
    pub(super) fn complete(
        &mut self,
        output: &[&RawValue],
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        let emitted_nothing = !self.any_begun();
        for (index, raw) in (0..).zip(output) {
            let of = Of { output_index: Some(index), item_id: "" };
            let is_open = || {
                let (kind, body) = read(raw).ok()?;
                let item = self.items.get(self.find(of, false)?)?;
                let same = item.id == body.id.as_str() || item.id.is_empty();
                Some(!item.closed && item.kind == kind && same)
            };
            if emitted_nothing || is_open() == Some(true) {
                self.done(of, raw, sink)?;
            }
        }
        self.decide(sink);
        Ok(())
    }

    fn is_undecided(&self, position: usize) -> bool {
        self.items.get(position).is_some_and(|item| item.undecided.is_some())
    }

    /// Stores the finished item of an undecided call.
    fn hold(&mut self, position: usize, raw: &RawValue, is_cut: bool) {
        let Some(item) = self.items.get_mut(position) else { return };
        if let Some(undecided) = &mut item.undecided {
            raw.get().clone_into(&mut undecided.raw);
            item.closed |= !is_cut;
        }
    }

    /// Decides the owner of calls of unknown tools: the provider if it sent the result, else the context, where they fail as
    /// calls of an unknown tool. A custom call is also the provider's if the provider has tools to run and this one is not
    /// described as a client's, or if the model wrote text after its result.
    fn decide(&mut self, sink: &mut dyn DeltaSink) {
        let mut text_follows = false;
        for position in (0..self.items.len()).rev() {
            let Some(item) = self.items.get_mut(position) else { continue };
            if let Some(undecided) = item.undecided.take() {
                let is_run = self.answered.contains(&undecided.call_id)
                    || (item.kind == ItemKind::CustomCall
                        && (text_follows || self.offered.has_provider_run(&undecided.name)));
                if is_run {
                    item.kind = ItemKind::Other;
                    if item.closed {
                        let (index, json) = (item.block, undecided.raw.as_str());
                        sink.delta(Delta::OpaqueJson { index, json });
                        sink.delta(Delta::BlockStop { index });
                    }
                } else {
                    emit_call(item, &undecided, sink);
                }
            }
            let has_text = |part: &Part| !part.text.is_empty();
            text_follows |= item.kind == ItemKind::Message && item.parts.iter().any(has_text);
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
        let slots = self.slots(position, Slot::Content, content.len());
        for ((slot, part), raw_part) in slots.zip(content).zip(raw_parts) {
            self.refused |= part.is_refusal() && !part.text().is_empty();
            self.settle(position, slot, part.text(), sink)?;
            let item = self.items.get(position);
            let emitted = item.and_then(|item| item.parts.iter().find(|part| part.slot == slot));
            if let Some(emitted) = emitted.filter(|emitted| !emitted.text.is_empty()) {
                let json = identity::stored_text(raw.get(), raw_part.get());
                sink.delta(Delta::ProviderData { index: emitted.block, json: &json });
            }
        }
        self.finish(position, None, true, sink);
        Ok(())
    }

    /// Where the `count` parts of a finished item were emitted, in order. Some servers continue the count of the previous
    /// reasoning in a message: if a fragment's index is none of a finished part, the order decides.
    fn slots(
        &self,
        position: usize,
        slot: fn(u64) -> Slot,
        count: usize,
    ) -> impl Iterator<Item = Slot> + use<> {
        let indexes: Vec<Slot> = (0..).map(slot).take(count).collect();
        let parts = self.items.get(position).map_or(&[][..], |item| &item.parts);
        // Only a reasoning item has texts of several kinds.
        let kind = std::mem::discriminant(&slot(0));
        let emitted = parts.iter().map(|part| part.slot);
        let emitted: Vec<Slot> = emitted.filter(|it| std::mem::discriminant(it) == kind).collect();
        if emitted.iter().all(|slot| indexes.contains(slot)) {
            return indexes.into_iter();
        }
        let unused = (1 << 32..).map(slot);
        emitted.into_iter().chain(unused).take(count).collect::<Vec<_>>().into_iter()
    }

    /// The id and name of a call, if they arrived late.
    fn identify(&mut self, position: usize, body: &ItemBody<'_>, sink: &mut dyn DeltaSink) {
        if let Some(item) = self.items.get(position) {
            let (id, name) = (body.call_id(), body.name.as_str());
            sink.delta(Delta::CallIdentity { index: item.block, id, name });
        }
    }

    /// The text of a custom call as the arguments of a tool with one `input`.
    fn emit_input(&mut self, position: usize, sink: &mut dyn DeltaSink) {
        let Some(item) = self.items.get(position) else { return };
        let text = item.parts.first().map_or("", |part| part.text.as_str());
        sink.delta(Delta::Arguments { index: item.block, json: &as_arguments(text) });
    }
}
