//! The engine's keys, and what looks like one, removed from what is remembered. It must never store a text before.

use serde_json::value::RawValue;

use super::service::Memory;
use model::{MemoryFact, PendingTurn};

/// The beginning of a long text.
pub(super) fn clipped(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}

impl Memory {
    /// The fact without keys.
    pub(super) fn without_keys(&self, mut fact: MemoryFact) -> MemoryFact {
        let keys = self.parts.engine.known_keys();
        fact.entity = keys.clean(&fact.entity);
        fact.r#type = keys.clean(&fact.r#type);
        let content = keys.clean_json(fact.content.get());
        if content != fact.content.get() {
            fact.content = RawValue::from_string(content).unwrap_or_default();
        }
        fact
    }

    /// The turn without keys in its texts.
    pub(super) fn turn_without_keys(&self, mut turn: PendingTurn) -> PendingTurn {
        let keys = self.parts.engine.known_keys();
        for text in &mut turn.texts {
            text.text = keys.clean(&text.text);
        }
        turn
    }
}
