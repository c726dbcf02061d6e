//! The job that archives the events of ended runs and deletes their entries from the journal. It starts after a number of
//! turns, and does one slice at a time, behind the jobs that wait.
//!
//! A commit must never wait for it, and nothing may depend on a single slice: the next one does the rest.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rusqlite::Connection;

use crate::journal_rows::archive_rows::{self, Sweep};
use crate::sqlite::writer::{Job, Writer};
use model::{Retention, StorageError};

/// Number of ended turns after which a slice starts.
const TURNS: u64 = 64;

/// The state of the archiving in an open ledger.
#[derive(Default)]
pub(crate) struct Archive {
    /// Turns that have ended since the last slice was submitted.
    ended: AtomicU64,
    sweep: Mutex<Sweep>,
}

impl Archive {
    /// Counts an ended turn, and starts a slice when there are enough.
    pub(crate) fn ended(self: &Arc<Self>, writer: &Arc<Writer>) {
        if self.ended.fetch_add(1, Ordering::Relaxed) + 1 >= TURNS {
            self.begin(writer);
        }
    }

    /// The part of `retention` that the end of a turn has to check now. Counting many runs takes time, so that is done once
    /// for several turns.
    pub(crate) fn to_check(&self, retention: &Retention) -> Retention {
        let is_due = self.ended.load(Ordering::Relaxed) == 0;
        let turns = retention.turns.filter(|turns| is_due || u64::from(*turns) <= TURNS);
        Retention { age: retention.age, turns }
    }

    /// Archives ended runs, a slice at a time.
    pub(crate) fn begin(self: &Arc<Self>, writer: &Arc<Writer>) {
        self.ended.store(0, Ordering::Relaxed);
        writer.post(Box::new(self.slice(writer, false)));
    }

    /// Archives ended runs in one job, when the ledger closes.
    pub(crate) fn finish(self: &Arc<Self>, writer: &Arc<Writer>) {
        if self.ended.load(Ordering::Relaxed) > 0 {
            writer.post(Box::new(self.slice(writer, true)));
        }
    }

    fn slice(self: &Arc<Self>, writer: &Arc<Writer>, is_last: bool) -> Slice {
        Slice {
            archive: Arc::clone(self),
            writer: Arc::downgrade(writer),
            is_last,
            sweep: Sweep::default(),
            more: false,
        }
    }
}

struct Slice {
    archive: Arc<Archive>,
    writer: Weak<Writer>,
    /// Whether the job does all slices, because no job follows it.
    is_last: bool,
    sweep: Sweep,
    more: bool,
}

impl Job for Slice {
    fn run(&mut self, connection: &Connection) -> bool {
        // A job may be run again: its progress counts only after its transaction.
        self.sweep = *self.archive.sweep.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match archive_rows::slice(connection, &mut self.sweep) {
                Ok(more) => self.more = more,
                // The next slice tries again.
                Err(_) => return false,
            }
            if !(self.more && self.is_last) {
                return true;
            }
        }
    }

    fn waits_for_disk(&self) -> bool {
        false
    }

    fn answer(self: Box<Self>, failure: Option<&StorageError>) {
        if failure.is_some() {
            return;
        }
        *self.archive.sweep.lock().unwrap_or_else(PoisonError::into_inner) = self.sweep;
        if let Some(writer) = self.writer.upgrade().filter(|_| self.more) {
            writer.post(self);
        }
    }
}
