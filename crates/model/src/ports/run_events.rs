//! Events of runs as followers receive them, and the members that stand in rows.
//!
//! It must never read or write a row: the backend of the ledger does.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{
    AgentToolCall, CallMembers, EventPage, EventReference, EventText, Message, MessageMembers,
    OutcomeMembers, RunEvent, RunEventKind, StreamEvent, ToolStatus, TurnRow, members,
    reference_of, with_members,
};

impl RunEvent {
    /// The event as JavaScript receives it.
    #[must_use]
    pub fn json(&self) -> String {
        let Self { seq, kind, message_id, text, added } = self;
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
    #[must_use]
    pub fn following(event: &StreamEvent, last: u64) -> Self {
        let seq = last.saturating_add(1);
        let EventText { stored, added } = event.clone().numbered(seq).into_text();
        Self {
            seq,
            kind: RunEventKind::Event,
            message_id: None,
            text: Arc::from(stored),
            added: (!added.is_empty()).then(|| Arc::from(added)),
        }
    }
}

impl EventPage {
    /// The page of these events, which follow number `after`.
    #[must_use]
    pub fn of(turn_id: String, after: u64, events: &[RunEvent], over: bool) -> Self {
        Self {
            turn_id,
            events: events.iter().map(RunEvent::json).collect(),
            last: events.last().map_or(after, |event| event.seq),
            over,
        }
    }
}

/// The rows that stored events refer to.
#[derive(Debug, Default)]
pub struct EventRows {
    /// Tool calls, by their ids.
    pub calls: HashMap<String, AgentToolCall>,
    /// Texts of messages, by the ids of these.
    pub texts: HashMap<String, String>,
    /// The ended turn.
    pub turn: Option<TurnRow>,
}

impl EventRows {
    /// What the events of a run refer to, with their places among them.
    #[must_use]
    pub fn references(events: &[RunEvent]) -> Vec<(usize, EventReference)> {
        let whole = |event: &RunEvent| event.kind != RunEventKind::Event;
        let events = events.iter().enumerate().filter(|(_, event)| !whole(event));
        events.filter_map(|(at, event)| Some((at, reference_of(&event.text)?))).collect()
    }

    /// Adds the members that the events refer to.
    pub fn complete(&self, events: &mut [RunEvent], references: &[(usize, EventReference)]) {
        for (at, reference) in references {
            if let Some(event) = events.get_mut(*at) {
                event.added = self.members(reference).map(Arc::from);
            }
        }
    }

    /// The members that an event refers to; `None` where its row is gone.
    fn members(&self, reference: &EventReference) -> Option<String> {
        match reference {
            EventReference::Call { call_id, status } => {
                let call = self.calls.get(call_id);
                let mut added = CallMembers::default();
                match status {
                    ToolStatus::Started => added.params = call.map(|call| call.params.as_ref()),
                    ToolStatus::Completed | ToolStatus::Failed => {
                        added.result = call.and_then(|call| call.result.as_deref());
                        added.is_error = Some(*status == ToolStatus::Failed);
                    }
                }
                Some(members(&added))
            }
            EventReference::Message(id) => {
                self.texts.get(id).map(|text| members(&MessageMembers { text }))
            }
            EventReference::Outcome { failed, unpersisted } => {
                let turn = self.turn.as_ref()?;
                let error = turn.error.as_ref().filter(|_| *failed);
                Some(members(&OutcomeMembers {
                    stop_reason: turn.stop_reason.as_deref()?,
                    turn_id: &turn.id,
                    usage: turn.usage,
                    cost: turn.cost,
                    persisted: (!unpersisted).then_some(true),
                    kind: error.map(|error| error.kind.as_str()),
                    retryable: error.map(|error| error.retryable),
                }))
            }
        }
    }

    /// The text of a steered message, which is its only block.
    #[must_use]
    pub fn text_of(message: &Message) -> String {
        message.blocks.iter().find_map(crate::Block::as_text).unwrap_or_default().to_owned()
    }
}
