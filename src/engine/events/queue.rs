//! The bounded event queue of one run: deltas and control records in order, numbered, merged when a reader lags.
//!
//! It owns `seq` and the merge rule of docs/rules/turns-and-streams.md#coalescing (more than 4,096 events behind: adjacent
//! deltas of one kind and message merge, nothing else does, nothing is dropped). If events are stored, none is delivered
//! before it is in the ledger (`log`). It must never block the run or know the reader.

mod log;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use serde::Deserialize;

use self::log::Log;
use super::record::{PIECE_BYTES, RECORD_BYTES, Record, RecordKind};
use model::{
    AgentPhase, EventGroup, EventText, RunEvent, RunEventKind, RunRegistration, StreamEvent,
    with_members,
};

/// A reader that is this many events behind gets merged deltas.
pub(crate) const MERGE_ABOVE: usize = 4_096;

/// Wakes the reader of a queue.
pub(crate) trait Notify: Send + Sync {
    /// The queue has records. `first` is false where the reader was notified before and has not drained since; `urgent` is
    /// false for deltas that may wait a few milliseconds for more.
    fn ready(&self, queue: &Arc<EventQueue>, first: bool, urgent: bool);
}

#[derive(Default)]
pub(super) struct Inner {
    pub(super) records: std::collections::VecDeque<Record>,
    /// The texts of the records, concatenated, after those that were drained.
    pub(super) text: String,
    /// The bytes of `text` that were drained.
    pub(super) taken: usize,
    seq: u64,
    pub(super) deltas: usize,
    /// Whether the reader was notified and has not drained since.
    pub(super) listed: bool,
    /// The next delta is the first of its message: it is never delayed.
    fresh: bool,
    /// Events delivered and not yet consumed; counted only where the socket waits for the reader.
    pub(super) unread: usize,
    /// A delta was added.
    has_delta: bool,
    waiting: Option<Waker>,
    closed: bool,
    /// The log of events to store; `None` where they are not stored.
    log: Option<Log>,
}

impl Inner {
    fn store(&mut self, kind: RunEventKind, text: &str, added: &str) {
        let seq = self.seq;
        if let Some(log) = &mut self.log {
            log.add(seq, kind, text, added);
        }
    }

    /// Whether a record may be delivered. A record that is no event waits for the events before it.
    pub(super) fn is_deliverable(&self, record: &Record) -> bool {
        self.log.as_ref().is_none_or(|log| !log.holds_back(record.seq))
    }
}

/// What a reader wants delivered, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery {
    /// False: the socket waits for a slow reader instead of merging.
    pub(crate) coalesce: bool,
    /// Whether phases are delivered. Few hosts listen to them, and three records of each call would be for nobody.
    pub(crate) phases: bool,
    /// The bits of the [`EventGroup`]s that are not delivered. They are numbered and stored all the same.
    pub(crate) skipped: u32,
}

/// The queue of one run.
pub(crate) struct EventQueue {
    pub(super) run: u32,
    pub(super) delivery: Delivery,
    reader: Arc<dyn Notify>,
    inner: Mutex<Inner>,
}

impl std::fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventQueue").field("run", &self.run).finish_non_exhaustive()
    }
}

impl EventQueue {
    /// An empty queue for the reader's run number `run`.
    #[must_use]
    pub(crate) fn new(run: u32, delivery: Delivery, notify: Arc<dyn Notify>) -> Arc<Self> {
        Arc::new(Self { run, delivery, reader: notify, inner: Mutex::default() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Continues the numbers of a run that was interrupted after event `seq`.
    pub(crate) fn continue_after(&self, seq: u64) {
        self.lock().seq = seq;
    }

    /// Whether the run has had an event, here or before it was interrupted.
    pub(crate) fn has_begun(&self) -> bool {
        self.lock().seq > 0
    }

    /// Stores the events through `registration` from now on.
    pub(crate) fn store_with(&self, registration: Arc<dyn RunRegistration>) {
        let mut inner = self.lock();
        inner.log = Some(Log::new(registration, inner.seq));
    }

    /// The events after `after` that are not stored yet.
    pub(crate) fn unstored(&self, after: u64) -> Vec<RunEvent> {
        self.lock().log.as_mut().map(|log| log.unstored(after)).unwrap_or_default()
    }

    /// Acknowledges that the events up to `seq` are stored.
    pub(crate) fn ack(self: &Arc<Self>, seq: u64) {
        self.release(|inner| {
            if let Some(log) = &mut inner.log {
                log.ack(seq);
            }
        });
    }

    /// Reports that the events cannot be written now: none is held back.
    pub(crate) fn nack(self: &Arc<Self>) {
        self.release(|inner| {
            if let Some(log) = &mut inner.log {
                log.nack();
            }
        });
    }

    /// Ends the storing of events, or the run has ended.
    pub(crate) fn stop_storing(self: &Arc<Self>) {
        let mut log = None;
        self.release(|inner| log = inner.log.take());
        // Dropped outside of the lock: it ends the registration.
        drop(log);
    }

    fn release(self: &Arc<Self>, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.lock();
        change(&mut inner);
        let deliverable = inner.records.front().is_some_and(|record| inner.is_deliverable(record));
        if deliverable {
            self.notify(inner, true);
        }
    }

    /// Announces the message that the next deltas belong to.
    pub(crate) fn message(self: &Arc<Self>, id: &str) {
        let mut inner = self.lock();
        inner.fresh = true;
        if let Some(log) = &mut inner.log {
            log.message(id);
        }
        Self::push(&mut inner, RecordKind::Message, 0, id);
        // No wake-up: the first delta follows immediately and is urgent.
    }

    /// Adds a delta of the current message.
    pub(crate) fn delta(self: &Arc<Self>, kind: RecordKind, text: &str) {
        let mut inner = self.lock();
        inner.seq += 1;
        inner.has_delta = true;
        let seq = inner.seq;
        let stored = if kind == RecordKind::Reasoning {
            RunEventKind::Reasoning
        } else {
            RunEventKind::Token
        };
        inner.store(stored, text, "");
        let record = Record::new(kind, seq, text);
        let merge = self.delivery.coalesce && inner.deltas >= MERGE_ABOVE;
        match inner.records.back_mut() {
            Some(last) if merge && last.kind == kind && last.bytes + text.len() <= PIECE_BYTES => {
                last.seq = seq;
                last.bytes += record.bytes;
                last.units += record.units;
            }
            _ => {
                inner.records.push_back(record);
                inner.deltas += 1;
            }
        }
        inner.text.push_str(text);
        let urgent = std::mem::take(&mut inner.fresh);
        self.notify(inner, urgent);
    }

    /// Adds a stream event, created with its number.
    pub(crate) fn event(self: &Arc<Self>, make: impl FnOnce(u64) -> StreamEvent) {
        let mut inner = self.lock();
        inner.seq += 1;
        let seq = inner.seq;
        let event = make(seq);
        let is_delivered = self.delivers(event.group());
        let EventText { stored, added } = event.into_text();
        inner.store(RunEventKind::Event, &stored, &added);
        if is_delivered {
            Self::push(&mut inner, RecordKind::Event, seq, &with_members(&stored, &added));
        }
        self.notify(inner, true);
    }

    /// The number of the newest event.
    pub(crate) fn last_seq(&self) -> u64 {
        self.lock().seq
    }

    /// Adds an event that another process has numbered and stored, as JSON.
    pub(crate) fn relay(self: &Arc<Self>, json: &str) {
        #[derive(Deserialize)]
        struct Stored {
            r#type: String,
            seq: u64,
        }
        let Ok(Stored { r#type, seq }) = serde_json::from_str(json) else { return };
        let mut inner = self.lock();
        inner.seq = inner.seq.max(seq);
        if self.delivers(EventGroup::of_type(&r#type)) {
            Self::push(&mut inner, RecordKind::Event, seq, json);
        }
        self.notify(inner, true);
    }

    /// Adds an event that is neither numbered nor stored. The other side numbers it after the last event that it delivered.
    pub(crate) fn live(self: &Arc<Self>, event: &StreamEvent) {
        let mut inner = self.lock();
        let json = serde_json::to_string(event).unwrap_or_default();
        Self::push(&mut inner, RecordKind::Live, 0, &json);
        self.notify(inner, false);
    }

    /// Whether the reader receives events of this group.
    pub(crate) fn delivers(&self, group: EventGroup) -> bool {
        self.delivery.skipped & group as u32 == 0
    }

    /// Whether the events are stored, so that the rows that they refer to must be in the file before them.
    pub(crate) fn stores(&self) -> bool {
        self.lock().log.is_some()
    }

    /// Adds a phase of the run. It is delivered with the event that follows it, or by [`EventQueue::flush`].
    pub(crate) fn phase(self: &Arc<Self>, phase: AgentPhase, now_ms: i64) {
        if !self.delivery.phases {
            return;
        }
        let name = match phase {
            AgentPhase::Start => "start",
            AgentPhase::Streaming => "streaming",
            AgentPhase::ToolUse => "tool_use",
            AgentPhase::CompactionStart => "compaction_start",
            AgentPhase::CompactionEnd => "compaction_end",
            AgentPhase::End => "end",
        };
        let mut inner = self.lock();
        let json = format!("{{\"phase\":\"{name}\",\"timestamp\":{now_ms}}}");
        Self::push(&mut inner, RecordKind::Phase, 0, &json);
    }

    /// Wakes the reader for records that would otherwise be delivered with a later event.
    pub(crate) fn flush(self: &Arc<Self>) {
        let inner = self.lock();
        if !inner.records.is_empty() {
            self.notify(inner, true);
        }
    }

    /// Adds a record for the host: a tool to run, a call to cancel, the result. One that is too long for JavaScript is replaced
    /// by an error.
    pub(crate) fn host(self: &Arc<Self>, kind: RecordKind, text: &str) {
        let mut inner = self.lock();
        if text.len() > RECORD_BYTES {
            let bytes = text.len();
            let why = format!(
                "{{\"code\":\"result_too_large\",\"message\":\"the result of the run is `{bytes}` bytes long, and at most \
                 `{RECORD_BYTES}` can be delivered; read its turn from the ledger\"}}"
            );
            Self::push(&mut inner, RecordKind::Unreadable, 0, &why);
        } else {
            Self::push(&mut inner, kind, 0, text);
        }
        self.notify(inner, true);
    }

    fn push(inner: &mut Inner, kind: RecordKind, seq: u64, text: &str) {
        inner.records.push_back(Record::new(kind, seq, text));
        inner.text.push_str(text);
    }

    fn notify<'a>(self: &'a Arc<Self>, mut inner: MutexGuard<'a, Inner>, urgent: bool) {
        let seq = inner.seq;
        let writer = match &mut inner.log {
            Some(log) if log.holds_back(seq) => {
                log.announces(urgent).then(|| Arc::clone(&log.registration))
            }
            Some(_) | None => None,
        };
        if inner.closed {
            inner.records.clear();
            inner.text.clear();
            inner.taken = 0;
            inner.deltas = 0;
        }
        let deliverable = inner.records.front().is_some_and(|record| inner.is_deliverable(record));
        if let Some(registration) = writer {
            drop(inner);
            registration.notify(urgent);
            inner = self.lock();
        }
        if !deliverable || inner.closed {
            return;
        }
        let first = !std::mem::replace(&mut inner.listed, true);
        drop(inner);
        if first || urgent {
            self.reader.ready(self, first, urgent);
        }
    }

    /// The reader has consumed `count` events (called only where `coalesce` is off).
    pub(crate) fn consumed(&self, count: usize) {
        let mut inner = self.lock();
        inner.unread = inner.unread.saturating_sub(count);
        if inner.unread + inner.records.len() <= MERGE_ABOVE
            && let Some(waker) = inner.waiting.take()
        {
            waker.wake();
        }
    }

    /// Whether the run has ever emitted a delta.
    pub(crate) fn has_delta(&self) -> bool {
        self.lock().has_delta
    }

    /// The reader is gone: the socket must not wait for it, and records are dropped.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.records.clear();
        inner.text = String::new();
        inner.taken = 0;
        if let Some(waker) = inner.waiting.take() {
            waker.wake();
        }
    }

    /// Ready while the reader is not behind, or if deltas may merge.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.delivery.coalesce {
            return Poll::Ready(());
        }
        let mut inner = self.lock();
        if inner.closed || inner.unread + inner.records.len() <= MERGE_ABOVE {
            Poll::Ready(())
        } else {
            inner.waiting = Some(cx.waker().clone());
            Poll::Pending
        }
    }
}

#[cfg(test)]
mod tests;
