//! What of a run's events is not in the file yet, and what may not be handed out before it is.
//!
//! It must never hand out an event before it is in the file, unless it cannot be written at all.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{Enrolment, Told, ToldKind};

/// The events of one run on their way to the file.
pub(super) struct Log {
    pub(super) enrolment: Arc<dyn Enrolment>,
    /// Events that are not in the file, oldest first.
    unkept: VecDeque<Told>,
    /// The newest event that is in the file.
    kept: u64,
    /// False where the file cannot be written: nothing waits for it then.
    holds: bool,
    /// The writer knows that there is something.
    announced: bool,
    message: Option<Arc<str>>,
}

impl Log {
    pub(super) fn new(enrolment: Arc<dyn Enrolment>, seq: u64) -> Self {
        Self {
            enrolment,
            unkept: VecDeque::new(),
            kept: seq,
            holds: true,
            announced: false,
            message: None,
        }
    }

    pub(super) fn message(&mut self, id: &str) {
        self.message = Some(Arc::from(id));
    }

    /// A new event. One that is in the file already is not kept twice.
    pub(super) fn add(&mut self, seq: u64, kind: ToldKind, text: &str) {
        if seq <= self.kept {
            return;
        }
        let message_id = match kind {
            ToldKind::Token | ToldKind::Reasoning => self.message.clone(),
            ToldKind::Event => None,
        };
        self.unkept.push_back(Told { seq, kind, message_id, text: Arc::from(text) });
    }

    /// Whether the event may not be handed out yet.
    pub(super) fn bars(&self, seq: u64) -> bool {
        self.holds && seq > self.kept
    }

    /// Whether the writer must be told of the newest event.
    pub(super) fn announces(&mut self, urgent: bool) -> bool {
        self.holds && (!std::mem::replace(&mut self.announced, true) || urgent)
    }

    pub(super) fn told(&mut self, after: u64) -> Vec<Told> {
        self.announced = false;
        self.unkept.iter().filter(|told| told.seq > after).cloned().collect()
    }

    pub(super) fn kept(&mut self, seq: u64) {
        self.kept = self.kept.max(seq);
        self.holds = true;
        while self.unkept.front().is_some_and(|told| told.seq <= self.kept) {
            self.unkept.pop_front();
        }
    }

    pub(super) fn unkept(&mut self) {
        self.holds = false;
        self.announced = false;
    }
}
