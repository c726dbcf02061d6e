//! One attempt's deltas on their way to the reader and into the message.
//!
//! It owns what had come when an attempt is cut, because the attempt's own future is gone by then.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::governor::Pass;
use super::sink::{EventQueue, RecordKind};
use crate::clock::Clock;
use crate::model::{AgentPhase, Delta, DeltaSink, Failure, RateLimits};
use crate::turn::Accumulator;

/// Takes the deltas of one attempt.
pub(crate) struct Attempt {
    queue: Arc<EventQueue>,
    clock: Clock,
    message_id: String,
    accumulator: Accumulator,
    emitted: bool,
    /// Its share of the rate limits.
    pass: Pass,
}

impl Attempt {
    pub(crate) fn new(
        queue: Arc<EventQueue>,
        clock: Clock,
        message_id: String,
        pass: Pass,
    ) -> Self {
        let accumulator = Accumulator::default();
        Self { queue, clock, message_id, accumulator, emitted: false, pass }
    }

    /// Whether a token reached the reader: from then on the attempt is never repeated (RULES §1).
    pub(crate) fn emitted(&self) -> bool {
        self.emitted
    }

    pub(crate) fn into_parts(self) -> (Accumulator, Pass) {
        (self.accumulator, self.pass)
    }

    fn emit(&mut self, kind: RecordKind, text: &str) {
        if text.is_empty() {
            return;
        }
        if !self.emitted {
            self.emitted = true;
            self.queue.phase(AgentPhase::Streaming, self.clock.now_ms());
            self.queue.message(&self.message_id);
        }
        self.queue.delta(kind, text);
    }
}

impl DeltaSink for Attempt {
    fn answered(&mut self, status: u16, limits: &RateLimits) {
        self.pass.answered(status, limits);
    }

    fn delta(&mut self, delta: Delta<'_>) {
        if !self.accumulator.apply(&delta) {
            return;
        }
        match &delta {
            Delta::Text { text, .. } => self.emit(RecordKind::Token, text),
            Delta::Thinking { text, .. } => self.emit(RecordKind::Reasoning, text),
            // Who has no headers has begun to answer now.
            Delta::Started { .. } => self.pass.answered(200, &RateLimits::default()),
            Delta::BlockStart { .. }
            | Delta::Signature { .. }
            | Delta::Arguments { .. }
            | Delta::CallIdentity { .. }
            | Delta::BecameCall { .. }
            | Delta::ProviderData { .. }
            | Delta::OpaqueJson { .. }
            | Delta::BlockStop { .. }
            | Delta::Usage(_) => {}
        }
    }

    fn withheld(&mut self, index: u32, bytes: usize) {
        self.accumulator.withheld(index, bytes);
    }

    fn refusal(&self) -> Option<Failure> {
        self.accumulator.refusal()
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.queue.poll_ready(cx)
    }
}
