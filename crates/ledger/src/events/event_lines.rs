//! The events of a run as the lines of a stored row: `e` and an event's JSON, or `t` or `r` and the text of a token or of
//! reasoning as a JSON string.
//!
//! It must never read or write a row.

use std::sync::Arc;

use crate::sqlite::error::{Stored, damaged};
use model::{RunEvent, RunEventKind, StreamEvent};

/// Adds the line of an event.
pub(super) fn line(lines: &mut String, event: &RunEvent) {
    match event.kind {
        RunEventKind::Event => {
            lines.push('e');
            // A target of the host may have line ends between its values; in strings they are escaped.
            lines.extend(
                event.text.chars().map(|it| if matches!(it, '\n' | '\r') { ' ' } else { it }),
            );
        }
        RunEventKind::Token | RunEventKind::Reasoning => {
            lines.push(if event.kind == RunEventKind::Token { 't' } else { 'r' });
            lines.push_str(&serde_json::Value::from(&*event.text).to_string());
        }
    }
    lines.push('\n');
}

/// The event number `seq` of its line; `message` is the message of a token or of reasoning.
pub(super) fn read_line(seq: u64, line: &str, message: Option<&Arc<str>>) -> Stored<RunEvent> {
    let unreadable = || damaged(&format!("event `{seq}` of a run cannot be read"));
    let (kind, rest) = line.split_at_checked(1).ok_or_else(unreadable)?;
    let kind = match kind {
        "t" => RunEventKind::Token,
        "r" => RunEventKind::Reasoning,
        "e" => RunEventKind::Event,
        _ => return Err(unreadable()),
    };
    let (message_id, text) = match kind {
        RunEventKind::Event => (None, Arc::from(rest)),
        RunEventKind::Token | RunEventKind::Reasoning => {
            let text: String = serde_json::from_str(rest).map_err(|_| unreadable())?;
            (message.cloned(), Arc::from(text))
        }
    };
    Ok(RunEvent { seq, kind, message_id, text })
}

/// The event as JavaScript receives it.
pub(crate) fn json(event: &RunEvent) -> String {
    let RunEvent { seq, kind, message_id, text } = event;
    let (text, seq, seq_from) = (text.to_string(), *seq, None);
    let message_id = message_id.as_deref().unwrap_or_default().to_owned();
    let event = match kind {
        RunEventKind::Event => return text,
        RunEventKind::Token => StreamEvent::Token { text, message_id, seq, seq_from },
        RunEventKind::Reasoning => StreamEvent::Reasoning { text, message_id, seq, seq_from },
    };
    serde_json::to_string(&event).unwrap_or_default()
}

/// The terminal event, with the number that follows `last`.
pub(crate) fn terminal(event: &StreamEvent, last: u64) -> RunEvent {
    let seq = last.saturating_add(1);
    // Plain strings and numbers: serde_json has no error for them.
    let text = serde_json::to_string(&event.clone().numbered(seq)).unwrap_or_default();
    RunEvent { seq, kind: RunEventKind::Event, message_id: None, text: Arc::from(text) }
}
