//! The reads under way, and the bound of the log while one of them pins it.
//!
//! A checkpoint stops at the oldest read. A read during which the log has grown by half the bound is ended once the log
//! exceeds the bound, so that no read of this process lets the log grow without limit. It must never end a read for the
//! growth that an older read of another process causes: only the growth during the read itself counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, InterruptHandle};

use crate::sqlite::error::Stored;
use base::telemetry;
use model::{StorageError, StorageErrorKind};

/// Instructions of SQLite between two checks whether the read was ended.
const STEPS: i32 = 10_000;

/// The reads under way of one open ledger.
pub(crate) struct Reads {
    /// The log's size in bytes above which reads are ended.
    bound: u64,
    /// Bytes written to the log since the ledger was opened.
    written: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The reads by number, oldest first.
    under_way: BTreeMap<u64, Entry>,
    next: u64,
    /// The log's pages at the last commit.
    pages: u64,
    over: bool,
}

struct Entry {
    began_at: u64,
    ended: Arc<AtomicBool>,
    interrupt: InterruptHandle,
}

impl Reads {
    /// An empty set of reads, for a log of at most `bound` bytes.
    pub(crate) fn new(bound: u64) -> Arc<Self> {
        Arc::new(Self { bound, written: AtomicU64::new(0), state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a read on `connection`. The read may be ended until the returned value is dropped.
    pub(crate) fn begin(self: &Arc<Self>, connection: &mut Connection) -> Read {
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        // Without the handler, only the interrupt ends the read.
        let _ = connection.progress_handler(STEPS, Some(move || flag.load(Ordering::Relaxed)));
        let began_at = self.written.load(Ordering::Relaxed);
        let interrupt = connection.get_interrupt_handle();
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.under_way.insert(number, Entry { began_at, ended: Arc::clone(&ended), interrupt });
        Read { reads: Arc::clone(self), number, ended }
    }

    /// Records the log's size after a commit.
    pub(crate) fn committed(&self, pages: u64, page_bytes: u64) {
        let mut state = self.lock();
        // After a reset the log is written from its start.
        let more = pages.checked_sub(state.pages).unwrap_or(pages);
        state.pages = pages;
        self.written.fetch_add(more.saturating_mul(page_bytes), Ordering::Relaxed);
    }

    /// Ends the oldest read that pins a log over its bound. `copied`: whether the whole log was copied into the file.
    pub(crate) fn bound_log(&self, log_bytes: u64, copied: bool) {
        let mut state = self.lock();
        if log_bytes < self.bound || copied {
            state.over = false;
            return;
        }
        if !std::mem::replace(&mut state.over, true) {
            telemetry::log_grew(log_bytes);
        }
        let written = self.written.load(Ordering::Relaxed);
        let oldest = state.under_way.values().next();
        if let Some(oldest) = oldest
            && written.saturating_sub(oldest.began_at) >= self.bound / 2
        {
            oldest.ended.store(true, Ordering::Relaxed);
            // This repeats at each commit until the read has ended, because an interrupt between two statements has no
            // effect.
            oldest.interrupt.interrupt();
        }
    }

    /// Whether the log is over its bound.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// The log's bound in bytes.
    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }
}

/// A read under way, until it is dropped.
pub(crate) struct Read {
    reads: Arc<Reads>,
    number: u64,
    ended: Arc<AtomicBool>,
}

impl Read {
    /// Whether the read was ended.
    ///
    /// # Errors
    /// `read_expired` if it was.
    pub(crate) fn check(&self) -> Stored<()> {
        if self.ended.load(Ordering::Relaxed) { Err(self.expired()) } else { Ok(()) }
    }

    /// The outcome of the read; if it was ended, the error is `read_expired`.
    pub(crate) fn outcome<T>(&self, outcome: Stored<T>) -> Stored<T> {
        outcome.map_err(|error| self.check().err().unwrap_or(error))
    }

    fn expired(&self) -> StorageError {
        StorageError::new(
            StorageErrorKind::ReadExpired,
            format!(
                "the read was ended: the ledger's log could not be copied into the file because of it, and has grown over \
                 `{}` bytes; read less at once, or while fewer turns are written",
                self.reads.bound
            ),
        )
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        self.reads.lock().under_way.remove(&self.number);
    }
}
