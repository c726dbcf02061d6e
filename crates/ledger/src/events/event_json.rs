//! Events as JavaScript receives them, and those that a commit point adds.
//!
//! It must never read or write a row.

use std::sync::Arc;

use model::{EventText, RunEvent, RunEventKind, StreamEvent, with_members};

/// The event as JavaScript receives it.
pub(crate) fn json(event: &RunEvent) -> String {
    let RunEvent { seq, kind, message_id, text, added } = event;
    let added = added.as_deref().unwrap_or_default();
    let (text, seq, seq_from) = (text.to_string(), *seq, None);
    let message_id = message_id.as_deref().unwrap_or_default().to_owned();
    let event = match kind {
        RunEventKind::Event => return with_members(&text, added).into_owned(),
        RunEventKind::Token => StreamEvent::Token { text, message_id, seq, seq_from },
        RunEventKind::Reasoning => StreamEvent::Reasoning { text, message_id, seq, seq_from },
    };
    serde_json::to_string(&event).unwrap_or_default()
}

/// An event that a commit point adds, with the number that follows `last`.
pub(crate) fn numbered(event: &StreamEvent, last: u64) -> RunEvent {
    let seq = last.saturating_add(1);
    let EventText { stored, added } = event.clone().numbered(seq).into_text();
    RunEvent {
        seq,
        kind: RunEventKind::Event,
        message_id: None,
        text: Arc::from(stored),
        added: (!added.is_empty()).then(|| Arc::from(added)),
    }
}
