//! The events of a run that are not stored yet: they are held back until they are.
//!
//! It must never let an event be delivered before it is stored, unless it cannot be written at all.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{RunEvent, RunEventKind, RunRegistration};

/// The events of one run until they are stored.
pub(super) struct Log {
    pub(super) registration: Arc<dyn RunRegistration>,
    /// Events that are not stored, oldest first.
    unstored: VecDeque<RunEvent>,
    /// The newest stored event.
    stored: u64,
    /// False while the ledger cannot be written: then no event is held back.
    holds: bool,
    /// The writer was notified.
    announced: bool,
    message: Option<Arc<str>>,
}

impl Log {
    pub(super) fn new(registration: Arc<dyn RunRegistration>, seq: u64) -> Self {
        Self {
            registration,
            unstored: VecDeque::new(),
            stored: seq,
            holds: true,
            announced: false,
            message: None,
        }
    }

    pub(super) fn message(&mut self, id: &str) {
        self.message = Some(Arc::from(id));
    }

    /// Adds a new event. One that is already stored is not stored twice.
    pub(super) fn add(&mut self, seq: u64, kind: RunEventKind, text: &str, added: &str) {
        if seq <= self.stored {
            return;
        }
        let message_id = match kind {
            RunEventKind::Token | RunEventKind::Reasoning => self.message.clone(),
            RunEventKind::Event => None,
        };
        self.unstored.push_back(RunEvent {
            seq,
            kind,
            message_id,
            text: Arc::from(text),
            added: (!added.is_empty()).then(|| Arc::from(added)),
        });
    }

    /// Whether the event may not be delivered yet.
    pub(super) fn holds_back(&self, seq: u64) -> bool {
        self.holds && seq > self.stored
    }

    /// Whether the writer must be notified of the newest event.
    pub(super) fn announces(&mut self, urgent: bool) -> bool {
        self.holds && (!std::mem::replace(&mut self.announced, true) || urgent)
    }

    pub(super) fn unstored(&mut self, after: u64) -> Vec<RunEvent> {
        self.announced = false;
        self.unstored.iter().filter(|event| event.seq > after).cloned().collect()
    }

    pub(super) fn ack(&mut self, seq: u64) {
        self.stored = self.stored.max(seq);
        self.holds = true;
        while self.unstored.front().is_some_and(|event| event.seq <= self.stored) {
            self.unstored.pop_front();
        }
    }

    pub(super) fn nack(&mut self) {
        self.holds = false;
        self.announced = false;
    }
}
