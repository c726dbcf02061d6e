//! The reads under way, and how far the log may grow while one of them pins it.
//!
//! A checkpoint stops at the oldest read. A read during which the log has grown by half the bound is ended once the log
//! is over it, so that no read of ours lets the log grow without end. It must never end a read that another process's
//! would outlast: only its own share of the growth counts.

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
    /// The log's size from which on reads are ended, in bytes.
    bound: u64,
    /// Bytes written to the log since the ledger was opened.
    written: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By number: the oldest first.
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
    /// No reads yet, for a log of at most `bound` bytes.
    pub(crate) fn new(bound: u64) -> Arc<Self> {
        Arc::new(Self { bound, written: AtomicU64::new(0), state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A read begins on `connection`, which may be ended until what this gives is dropped.
    pub(crate) fn begin(self: &Arc<Self>, connection: &mut Connection) -> Read {
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        // Without it, a read is ended by the interrupt alone.
        let _ = connection.progress_handler(STEPS, Some(move || flag.load(Ordering::Relaxed)));
        let began_at = self.written.load(Ordering::Relaxed);
        let interrupt = connection.get_interrupt_handle();
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.under_way.insert(number, Entry { began_at, ended: Arc::clone(&ended), interrupt });
        Read { reads: Arc::clone(self), number, ended }
    }

    /// Takes note of the log's size after a commit.
    pub(crate) fn committed(&self, pages: u64, page_bytes: u64) {
        let mut state = self.lock();
        // A log that was begun anew is written from its start.
        let more = pages.checked_sub(state.pages).unwrap_or(pages);
        state.pages = pages;
        self.written.fetch_add(more.saturating_mul(page_bytes), Ordering::Relaxed);
    }

    /// Ends the oldest read that pins a log over its bound. `copied`: whether all of it is in the file already.
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
            // Again at each commit until the read has ended: an interrupt between two statements is lost.
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
    /// `read_expired` when it was.
    pub(crate) fn check(&self) -> Stored<()> {
        if self.ended.load(Ordering::Relaxed) { Err(self.expired()) } else { Ok(()) }
    }

    /// What came of the read: where it was ended, that is why it failed.
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
