//! The bounded event queue of one run: deltas and control records in order, numbered, merged when a reader lags.
//!
//! It owns `seq` and the merge rule of docs/rules/turns-and-streams.md#coalescing (more than 4,096 events behind: adjacent deltas of one kind and message
//! merge, nothing else does, nothing is dropped). Where events are stored, none is delivered before it is in the file
//! (`log`). It must never block the run or know who reads.

mod log;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use self::log::Log;
use model::{AgentPhase, RunEvent, RunEventKind, RunRegistration, StreamEvent};

/// A reader this far behind gets merged deltas.
pub(crate) const MERGE_ABOVE: usize = 4_096;

/// Bytes of text that a reader takes at once. A record that is longer is delivered alone.
const PIECE_BYTES: usize = 4 << 20;
/// Bytes that one record may have: half of what a string of V8 holds. Nothing can read one that is longer.
pub(crate) const RECORD_BYTES: usize = 256 << 20;

/// What a record is. The numbers are the wire of the JavaScript boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// Visible text of the current message.
    Token = 0,
    /// Reasoning of the current message.
    Reasoning = 1,
    /// The id of the message the deltas that follow belong to.
    Message = 2,
    /// A [`StreamEvent`] as JSON.
    Event = 3,
    /// A phase of `onAgentEvent` as JSON.
    Phase = 4,
    /// The run's result as JSON: the last record.
    Result = 5,
    /// A tool to run, as JSON.
    Tool = 6,
    /// The number of a tool's execution that is not waited for any more.
    ToolCancel = 7,
    /// The message of a defect of the engine: instead of the result.
    Defect = 8,
    /// A request for the host to inspect, as JSON.
    Request = 9,
    /// Why the result cannot be delivered, as JSON: instead of the result.
    Unreadable = 10,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    kind: RecordKind,
    seq_from: u64,
    seq: u64,
    bytes: usize,
    units: usize,
}

/// Wakes the reader of a queue.
pub(crate) trait Notify: Send + Sync {
    /// The queue has records. `first` is false where the reader was notified before and has not drained since; `urgent` is
    /// false for deltas that may wait a few milliseconds for more.
    fn ready(&self, queue: &Arc<EventQueue>, first: bool, urgent: bool);
}

#[derive(Default)]
struct Inner {
    records: std::collections::VecDeque<Record>,
    /// The records' texts, one after the other, behind those that were taken.
    text: String,
    /// Bytes of `text` that were taken.
    taken: usize,
    seq: u64,
    deltas: usize,
    /// Whether the reader was notified and has not drained since.
    listed: bool,
    /// The next delta is the first of its message: it is never delayed.
    fresh: bool,
    /// Events delivered and not yet consumed; counted only where the socket waits for the reader.
    unread: usize,
    /// A delta was added.
    has_delta: bool,
    waiting: Option<Waker>,
    closed: bool,
    /// Where the events are stored; `None` where they are not.
    log: Option<Log>,
}

impl Inner {
    fn store(&mut self, kind: RunEventKind, text: &str) {
        let seq = self.seq;
        if let Some(log) = &mut self.log {
            log.add(seq, kind, text);
        }
    }

    /// Whether a record may be delivered. One that is no event waits for those before it.
    fn is_deliverable(&self, record: &Record) -> bool {
        self.log.as_ref().is_none_or(|log| !log.holds_back(record.seq))
    }
}

/// What a reader takes: records of several runs, and one text they point into by UTF-16 offsets.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The texts of all records.
    pub text: String,
    /// Five numbers a record: run, kind, first seq, last seq, end of its text in UTF-16 units.
    pub rows: Vec<u32>,
    units: usize,
}

impl Batch {
    /// Numbers per record.
    pub(crate) const WIDTH: usize = 5;

    /// Empties it and reuses its memory.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.rows.clear();
        self.units = 0;
    }

    /// Takes at most `capacity` records and 4 MiB of text from `queues`, in their order. What still has some stays in
    /// `queues`. One that was interrupted comes last: a flood never delays the others. One whose record had no room
    /// beside the others comes first: small records never delay a large one. Returns true when some are left.
    pub(crate) fn fill(&mut self, queues: &mut Vec<Arc<EventQueue>>, capacity: usize) -> bool {
        let mut blocked = Vec::new();
        let mut left = Vec::new();
        let mut interrupted = Vec::new();
        for queue in queues.drain(..) {
            let before = self.rows.len();
            let room = capacity.saturating_sub(before / Self::WIDTH);
            if room == 0 {
                left.push(queue);
            } else if queue.drain(self, room) {
                let into = if self.rows.len() == before { &mut blocked } else { &mut interrupted };
                into.push(queue);
            }
        }
        blocked.append(&mut left);
        blocked.append(&mut interrupted);
        *queues = blocked;
        !queues.is_empty()
    }
}

/// The queue of one run.
pub(crate) struct EventQueue {
    run: u32,
    /// False: the socket waits for a slow reader instead of merging.
    coalesce: bool,
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
    pub(crate) fn new(run: u32, coalesce: bool, notify: Arc<dyn Notify>) -> Arc<Self> {
        Arc::new(Self { run, coalesce, reader: notify, inner: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run is one that was interrupted after event `seq`: the next one follows it.
    pub(crate) fn goes_on_after(&self, seq: u64) {
        self.lock().seq = seq;
    }

    /// Whether the run has had an event, here or before it was interrupted.
    pub(crate) fn has_begun(&self) -> bool {
        self.lock().seq > 0
    }

    /// The events are stored through `registration` from now on.
    pub(crate) fn store_with(&self, registration: Arc<dyn RunRegistration>) {
        let mut inner = self.lock();
        inner.log = Some(Log::new(registration, inner.seq));
    }

    /// The events after `after` that are not in the file.
    pub(crate) fn unstored(&self, after: u64) -> Vec<RunEvent> {
        self.lock().log.as_mut().map(|log| log.unstored(after)).unwrap_or_default()
    }

    /// The events up to `seq` are in the file.
    pub(crate) fn ack(self: &Arc<Self>, seq: u64) {
        self.release(|inner| {
            if let Some(log) = &mut inner.log {
                log.ack(seq);
            }
        });
    }

    /// The events cannot be written now: nothing is held back.
    pub(crate) fn nack(self: &Arc<Self>) {
        self.release(|inner| {
            if let Some(log) = &mut inner.log {
                log.nack();
            }
        });
    }

    /// The events are not stored any more, or the run has ended.
    pub(crate) fn stop_storing(self: &Arc<Self>) {
        let mut log = None;
        self.release(|inner| log = inner.log.take());
        // Outside of the lock: dropping it ends the registration.
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
        // No wake: the first delta follows at once and is urgent.
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
        inner.store(stored, text);
        let units = utf16_units(text);
        let merge = self.coalesce && inner.deltas >= MERGE_ABOVE;
        match inner.records.back_mut() {
            Some(last) if merge && last.kind == kind && last.bytes + text.len() <= PIECE_BYTES => {
                last.seq = seq;
                last.bytes += text.len();
                last.units += units;
                inner.text.push_str(text);
            }
            _ => {
                inner.records.push_back(Record {
                    kind,
                    seq_from: seq,
                    seq,
                    bytes: text.len(),
                    units,
                });
                inner.text.push_str(text);
                inner.deltas += 1;
            }
        }
        let urgent = std::mem::take(&mut inner.fresh);
        self.notify(inner, urgent);
    }

    /// Adds a stream event, made with its number.
    pub(crate) fn event(self: &Arc<Self>, make: impl FnOnce(u64) -> StreamEvent) {
        let mut inner = self.lock();
        inner.seq += 1;
        let seq = inner.seq;
        let json = serde_json::to_string(&make(seq)).unwrap_or_default();
        inner.store(RunEventKind::Event, &json);
        Self::push(&mut inner, RecordKind::Event, seq, &json);
        self.notify(inner, true);
    }

    /// Adds a phase of the run's life.
    pub(crate) fn phase(self: &Arc<Self>, phase: AgentPhase, now_ms: i64) {
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
        // Phases ride with the event that follows them; nothing follows this one for as long as a summary takes.
        if phase == AgentPhase::CompactionStart {
            self.notify(inner, true);
        }
    }

    /// Wakes the reader for records that would otherwise ride with a later event: none comes for a while.
    pub(crate) fn flush(self: &Arc<Self>) {
        let inner = self.lock();
        if !inner.records.is_empty() {
            self.notify(inner, true);
        }
    }

    /// Adds a record for the host: a tool to run, a call to give up, the result. One that is too long for any reader is
    /// replaced by an error.
    pub(crate) fn host(self: &Arc<Self>, kind: RecordKind, text: &str) {
        let mut inner = self.lock();
        if text.len() > RECORD_BYTES {
            let bytes = text.len();
            let why = format!(
                "{{\"code\":\"result_too_large\",\"message\":\"what the run came to is `{bytes}` bytes long, and at most \
                 `{RECORD_BYTES}` can be handed out; read its turn from the ledger\"}}"
            );
            Self::push(&mut inner, RecordKind::Unreadable, 0, &why);
        } else {
            Self::push(&mut inner, kind, 0, text);
        }
        self.notify(inner, true);
    }

    fn push(inner: &mut Inner, kind: RecordKind, seq: u64, text: &str) {
        let units = utf16_units(text);
        inner.records.push_back(Record { kind, seq_from: seq, seq, bytes: text.len(), units });
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

    /// Moves at most `room` records into `batch`, and no more text than it takes. Returns true when some are left.
    pub(crate) fn drain(&self, batch: &mut Batch, room: usize) -> bool {
        let mut inner = self.lock();
        let mut ahead = batch.text.len();
        let mut alone = batch.rows.is_empty();
        let shown = inner.records.iter().take(room).take_while(|record| {
            ahead = ahead.saturating_add(record.bytes);
            // The first record of a batch always has room.
            let fits = std::mem::take(&mut alone) || ahead <= PIECE_BYTES;
            fits && inner.is_deliverable(record)
        });
        let taken = shown.count();
        let mut bytes = 0;
        let mut events = 0;
        for record in inner.records.drain(..taken) {
            bytes += record.bytes;
            // The other records are for the host, which consumes them as they come.
            events += usize::from(record.seq != 0);
            batch.units += record.units;
            batch.rows.extend([
                self.run,
                u32::from(record.kind as u8),
                u32::try_from(record.seq_from).unwrap_or(u32::MAX),
                u32::try_from(record.seq).unwrap_or(u32::MAX),
                u32::try_from(batch.units).unwrap_or(u32::MAX),
            ]);
        }
        let from = inner.taken;
        if inner.records.is_empty() {
            if from == 0 && batch.text.is_empty() && inner.text.len() > 1 << 16 {
                // A large one is not copied.
                batch.text = std::mem::take(&mut inner.text);
            } else {
                batch.text.push_str(inner.text.get(from..).unwrap_or_default());
                inner.text.clear();
                inner.text.shrink_to(1 << 16);
            }
            inner.taken = 0;
            inner.deltas = 0;
            inner.listed = false;
        } else {
            batch.text.push_str(inner.text.get(from..from + bytes).unwrap_or_default());
            inner.taken += bytes;
            if inner.taken > inner.text.len() / 2 {
                // Moved seldom enough that each byte moves once on average.
                let taken = std::mem::take(&mut inner.taken);
                inner.text.drain(..taken);
            }
            inner.deltas = inner.deltas.saturating_sub(taken);
            if !inner.records.front().is_some_and(|record| inner.is_deliverable(record)) {
                // The rest waits for the file; the reader is notified when it is there.
                inner.listed = false;
            }
        }
        if !self.coalesce {
            inner.unread += events;
        }
        inner.listed
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

    /// Nobody reads any more: the socket must not wait, and records are dropped.
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

    /// Ready while the reader keeps up, or where deltas may merge.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.coalesce {
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

fn utf16_units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

#[cfg(test)]
mod tests;
