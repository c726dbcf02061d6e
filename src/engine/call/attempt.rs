//! One call's deltas on their way into the message, and to the reader where there is one.
//!
//! It owns what had come when a call is cut, because the call's own future is gone by then.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::super::governor::Pass;
use super::super::sink::{EventQueue, RecordKind};
use base::clock::Clock;
use model::{AgentPhase, Delta, DeltaSink, Failure, RateLimits};
use turn::Accumulator;

/// Who reads a call's deltas as they come.
pub(super) struct Reader {
    pub(super) queue: Arc<EventQueue>,
    pub(super) clock: Clock,
    pub(super) message_id: String,
}

/// Takes the deltas of one call.
pub(super) struct Attempt {
    /// `None` for a call whose answer nobody sees before it is whole.
    reader: Option<Reader>,
    accumulator: Accumulator,
    emitted: bool,
    /// Its share of the rate limits.
    pass: Pass,
}

impl Attempt {
    pub(super) fn new(reader: Option<Reader>, pass: Pass) -> Self {
        Self { reader, accumulator: Accumulator::default(), emitted: false, pass }
    }

    /// Whether a token reached the reader: from then on the call is never repeated.
    pub(super) fn emitted(&self) -> bool {
        self.emitted
    }

    pub(super) fn into_parts(self) -> (Accumulator, Pass) {
        (self.accumulator, self.pass)
    }

    fn emit(&mut self, kind: RecordKind, text: &str) {
        let Some(reader) = self.reader.as_ref().filter(|_| !text.is_empty()) else { return };
        if !self.emitted {
            self.emitted = true;
            reader.queue.phase(AgentPhase::Streaming, reader.clock.now_ms());
            reader.queue.message(&reader.message_id);
        }
        reader.queue.delta(kind, text);
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
        match &self.reader {
            Some(reader) => reader.queue.poll_ready(cx),
            None => Poll::Ready(()),
        }
    }
}
