//! Adds one call's deltas to the message, and emits them if there is a reader.
//!
//! It owns the received content, because the call's future is dropped when a call is cut. It must never emit a delta before
//! the message accepts it.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::engine::events::{EventQueue, RecordKind};
use crate::engine::limits::RatePermit;
use crate::engine::state::RunControl;
use base::clock::Clock;
use model::{
    AgentPhase, BlockStart, Delta, DeltaSink, EventGroup, Failure, RateLimits, StreamEvent,
};
use turn::Accumulator;

/// The reader of a call's deltas.
pub(super) struct Reader {
    pub(super) queue: Arc<EventQueue>,
    pub(super) clock: Clock,
    pub(super) message_id: String,
    /// The run that answers.
    pub(super) run: Option<Arc<RunControl>>,
}

/// Receives the deltas of one call.
pub(super) struct CallDeltas {
    /// `None` for a call whose answer is not streamed.
    reader: Option<Reader>,
    accumulator: Accumulator,
    emitted: bool,
    /// Its rate permit.
    permit: RatePermit,
    /// The calls in the answer, id and name by block: only for a reader that receives their arguments as they stream.
    calls: HashMap<u32, (String, String)>,
}

impl CallDeltas {
    pub(super) fn new(reader: Option<Reader>, permit: RatePermit) -> Self {
        Self {
            reader,
            accumulator: Accumulator::default(),
            emitted: false,
            permit,
            calls: HashMap::new(),
        }
    }

    /// Whether a token was emitted: then the call is never repeated.
    pub(super) fn emitted(&self) -> bool {
        self.emitted
    }

    pub(super) fn into_parts(self) -> (Accumulator, RatePermit) {
        (self.accumulator, self.permit)
    }

    fn emit(&mut self, kind: RecordKind, text: &str) {
        let Some(reader) = self.reader.as_ref().filter(|_| !text.is_empty()) else { return };
        if !self.emitted {
            self.emitted = true;
            if let Some(run) = &reader.run {
                run.set_answering(true);
            }
            reader.queue.phase(AgentPhase::Streaming, reader.clock.now_ms());
            reader.queue.message(&reader.message_id);
        }
        reader.queue.delta(kind, text);
    }

    /// The reader, if it receives the arguments of calls as they stream.
    fn argument_reader(&self) -> Option<&Reader> {
        self.reader.as_ref().filter(|reader| reader.queue.delivers(EventGroup::ToolInput))
    }

    fn call_begins(&mut self, index: u32, id: &str, name: &str) {
        if self.argument_reader().is_none() {
            return;
        }
        let (known_id, known_name) = self.calls.entry(index).or_default();
        for (known, given) in [(known_id, id), (known_name, name)] {
            if !given.is_empty() {
                given.clone_into(known);
            }
        }
    }

    fn emit_arguments(&self, index: u32, json: &str) {
        let Some(reader) = self.argument_reader().filter(|_| !json.is_empty()) else { return };
        let (id, name) = self.calls.get(&index).cloned().unwrap_or_default();
        reader.queue.live(&StreamEvent::ToolInputDelta {
            tool_call_id: Some(id).filter(|id| !id.is_empty()),
            tool_name: Some(name).filter(|name| !name.is_empty()),
            delta: json.to_owned(),
            index,
            message_id: reader.message_id.clone(),
            seq: 0,
            sub: 0,
        });
    }
}

impl DeltaSink for CallDeltas {
    fn answered(&mut self, status: u16, limits: &RateLimits) {
        self.permit.answered(status, limits);
    }

    fn delta(&mut self, delta: Delta<'_>) {
        if !self.accumulator.apply(&delta) {
            return;
        }
        match &delta {
            Delta::Text { text, .. } => self.emit(RecordKind::Token, text),
            Delta::Thinking { text, .. } => self.emit(RecordKind::Reasoning, text),
            // The first delta of a provider without headers is the begin of its answer.
            Delta::Started { .. } => self.permit.answered(200, &RateLimits::default()),
            Delta::BlockStart { index, start: BlockStart::ToolCall { id, name } }
            | Delta::CallIdentity { index, id, name }
            | Delta::BecameCall { index, id, name } => self.call_begins(*index, id, name),
            Delta::Arguments { index, json } => self.emit_arguments(*index, json),
            Delta::BlockStart { .. }
            | Delta::Signature { .. }
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
