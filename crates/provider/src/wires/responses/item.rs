//! One output item: its kind, and how much of it was emitted. It must never emit anything itself.

use serde_json::value::RawValue;

use super::wire::{ItemBody, Kind, PartBody};
use crate::Failure;
use crate::wire::malformed;

/// The text of an item to which a fragment belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// A part of a message.
    Content(u64),
    /// A part of the reasoning summary.
    Summary(u64),
    /// A part of the reasoning.
    Reasoning(u64),
    /// A call's arguments.
    Arguments,
    /// A custom call's input: text, not JSON.
    Input,
}

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    Call,
    CustomCall,
    /// An opaque item.
    Other,
}

/// One text of an item so far.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) slot: Slot,
    pub(super) block: u32,
    pub text: String,
}

/// One item so far.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) kind: ItemKind,
    /// Its block; further parts of a message have their own.
    pub(super) block: u32,
    pub(super) parts: Vec<Part>,
    pub(super) closed: bool,
    /// A call of an unknown tool, while its owner is undecided.
    pub(super) undecided: Option<Undecided>,
}

/// A call that the end of the response decides.
#[derive(Debug)]
pub(super) struct Undecided {
    pub(super) call_id: String,
    pub(super) name: String,
    /// The finished item, once it was received.
    pub(super) raw: String,
}

impl Item {
    /// Whether it is a tool call.
    pub(super) fn is_call(&self) -> bool {
        matches!(self.kind, ItemKind::Call | ItemKind::CustomCall)
    }

    /// Whether a fragment may belong to it.
    pub(super) fn takes(&self, slot: Slot) -> bool {
        match slot {
            Slot::Content(_) => self.kind == ItemKind::Message,
            Slot::Summary(_) | Slot::Reasoning(_) => self.kind == ItemKind::Reasoning,
            Slot::Arguments => self.kind == ItemKind::Call,
            Slot::Input => self.kind == ItemKind::CustomCall,
        }
    }
}

/// The kind and the content of an item.
pub(super) fn read(raw: &RawValue) -> Result<(ItemKind, ItemBody<'_>), Failure> {
    let unreadable = |_| malformed("an output item");
    let kind = serde_json::from_str::<Kind<'_>>(raw.get()).map_err(unreadable)?.kind;
    let kind = match kind.as_str() {
        "message" => ItemKind::Message,
        "reasoning" => ItemKind::Reasoning,
        "function_call" => ItemKind::Call,
        "custom_tool_call" => ItemKind::CustomCall,
        _ => ItemKind::Other,
    };
    let body = match kind {
        ItemKind::Other => ItemBody::identified(raw),
        ItemKind::Message | ItemKind::Reasoning | ItemKind::Call | ItemKind::CustomCall => {
            serde_json::from_str(raw.get()).map_err(unreadable)?
        }
    };
    Ok((kind, body))
}

/// The parts of a content or a summary.
pub(super) fn parts_of<'a>(parts: Option<&[&'a RawValue]>) -> Result<Vec<PartBody<'a>>, Failure> {
    let parse = |raw: &&'a RawValue| serde_json::from_str::<PartBody<'a>>(raw.get());
    let parsed: Result<_, _> = parts.unwrap_or_default().iter().map(parse).collect();
    parsed.map_err(|_| malformed("a part of an output item"))
}
