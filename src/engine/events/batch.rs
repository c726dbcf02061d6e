//! A batch of records: what a reader drains from queues in one step.
//!
//! It must never contain a record that may not be delivered yet, nor more text than a reader can hold.

use std::sync::Arc;

use super::queue::EventQueue;
use super::record::PIECE_BYTES;

/// Records of several runs, and one text that they refer to by UTF-16 offsets.
#[derive(Debug, Default)]
pub(crate) struct RecordBatch {
    /// The texts of all records.
    pub text: String,
    /// Five numbers per record: run, kind, first seq, last seq, end of its text in UTF-16 units.
    pub rows: Vec<u32>,
    units: usize,
}

impl RecordBatch {
    /// Numbers per record.
    pub(crate) const WIDTH: usize = 5;

    /// Empties it and reuses its memory.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.rows.clear();
        self.units = 0;
    }

    /// Drains at most `capacity` records and 4 MiB of text from `queues`, in their order. Queues with more records stay in
    /// `queues`. A partly drained queue is put last: a flood never delays the others. A queue whose record was too large for the
    /// rest of the batch is put first: small records never delay a large one. Returns true when records remain.
    pub(crate) fn fill(&mut self, queues: &mut Vec<Arc<EventQueue>>, capacity: usize) -> bool {
        let mut blocked = Vec::new();
        let mut left = Vec::new();
        let mut interrupted = Vec::new();
        for queue in queues.drain(..) {
            let before = self.rows.len();
            let limit = capacity.saturating_sub(before / Self::WIDTH);
            if limit == 0 {
                left.push(queue);
            } else if queue.drain(self, limit) {
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

impl EventQueue {
    /// Moves at most `limit` records into `batch`, within its text limit. Returns true when records remain.
    pub(crate) fn drain(&self, batch: &mut RecordBatch, limit: usize) -> bool {
        let mut inner = self.lock();
        let mut ahead = batch.text.len();
        let mut alone = batch.rows.is_empty();
        let shown = inner.records.iter().take(limit).take_while(|record| {
            ahead = ahead.saturating_add(record.bytes);
            // The first record of a batch always fits.
            let fits = std::mem::take(&mut alone) || ahead <= PIECE_BYTES;
            fits && inner.is_deliverable(record)
        });
        let taken = shown.count();
        let mut bytes = 0;
        let mut events = 0;
        for record in inner.records.drain(..taken) {
            bytes += record.bytes;
            // The other records are for the host, which consumes them immediately.
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
                // A large text is moved, not copied.
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
                // Rare enough that each byte moves once on average.
                let taken = std::mem::take(&mut inner.taken);
                inner.text.drain(..taken);
            }
            inner.deltas = inner.deltas.saturating_sub(taken);
            if !inner.records.front().is_some_and(|record| inner.is_deliverable(record)) {
                // The rest waits for the ledger; the reader is notified when it is stored.
                inner.listed = false;
            }
        }
        if !self.delivery.coalesce {
            inner.unread += events;
        }
        inner.listed
    }
}
