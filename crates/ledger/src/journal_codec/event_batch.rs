//! Events of a run as bytes: their structure in one stream, their texts in another.
//!
//! Events are not merged: each is restored with its number. It must never accept events whose numbers have a gap.

use std::sync::Arc;

use super::bytes::{ByteReader, ByteWriter};
use model::{RunEvent, RunEventKind};

/// Consecutive events, in the form of an entry or an archive.
#[derive(Default)]
pub(crate) struct EventBatch {
    first: u64,
    count: u64,
    /// The kind of each event, the length of its text, and its message if that differs from the previous event's.
    structure: ByteWriter,
    texts: Vec<u8>,
    message: Option<Arc<str>>,
}

/// The bit for an event of another message than the previous one.
const CHANGES: usize = 4;

impl EventBatch {
    /// Adds the next event; false, without adding it, if its number does not follow.
    pub(crate) fn add(&mut self, event: &RunEvent) -> bool {
        if self.count == 0 {
            self.first = event.seq;
        } else if event.seq != self.first + self.count {
            return false;
        }
        let kind = match event.kind {
            RunEventKind::Token => 0,
            RunEventKind::Reasoning => 1,
            RunEventKind::Event => 2,
        };
        let is_delta = event.kind != RunEventKind::Event;
        let changes = is_delta && event.message_id != self.message;
        let flag = if changes { CHANGES } else { 0 };
        self.structure.length(event.text.len() << 3 | flag | kind);
        if changes {
            self.structure.optional_text(event.message_id.as_deref());
            self.message.clone_from(&event.message_id);
        }
        self.texts.extend_from_slice(event.text.as_bytes());
        self.count += 1;
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of the last event; 0 for none.
    pub(crate) fn last(&self) -> u64 {
        if self.count == 0 { 0 } else { self.first + self.count - 1 }
    }

    /// Bytes so far.
    pub(crate) fn size(&self) -> usize {
        self.structure.0.len() + self.texts.len()
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        let mut out = ByteWriter(Vec::with_capacity(self.size() + 24));
        out.number(self.first);
        out.number(self.count);
        out.length(self.structure.0.len());
        out.0.extend_from_slice(&self.structure.0);
        out.0.extend_from_slice(&self.texts);
        out.0
    }

    /// The number of the last event of a content; `None` where it cannot be read.
    pub(crate) fn last_of(content: &[u8]) -> Option<u64> {
        let mut from = ByteReader(content);
        let (first, count) = (from.number()?, from.number()?);
        first.checked_add(count)?.checked_sub(1)
    }

    /// The events of a content; `None` where they cannot be read.
    pub(crate) fn events(content: &[u8]) -> Option<Vec<RunEvent>> {
        let mut from = ByteReader(content);
        let (first, count) = (from.number()?, from.number()?);
        let length = from.length()?;
        let mut structure = ByteReader(from.bytes(length)?);
        let mut texts = from;
        let mut message: Option<Arc<str>> = None;
        let mut events = Vec::new();
        while !structure.is_empty() {
            let shape = structure.length()?;
            let kind = match shape & 3 {
                0 => RunEventKind::Token,
                1 => RunEventKind::Reasoning,
                2 => RunEventKind::Event,
                _ => return None,
            };
            if shape & CHANGES != 0 {
                message = structure.optional_text()?.map(Arc::from);
            }
            let text = std::str::from_utf8(texts.bytes(shape >> 3)?).ok()?;
            let is_delta = kind != RunEventKind::Event;
            events.push(RunEvent {
                seq: first.checked_add(events.len() as u64)?,
                kind,
                message_id: message.clone().filter(|_| is_delta),
                text: Arc::from(text),
                added: None,
            });
        }
        (texts.is_empty() && events.len() as u64 == count).then_some(events)
    }
}
