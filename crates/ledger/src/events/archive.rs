//! The job that archives the events of ended runs and empties the journal behind the open ones: after some turns, a slice at a
//! time, put behind what waits.
//!
//! It must never be what a commit waits for, nor be counted on: what one has left is done by the next.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rusqlite::Connection;

use crate::journal_rows::archive_rows::{self, Sweep};
use crate::sqlite::writer::{Job, Writer};
use model::{Retention, StorageError};

/// Ended turns that make a slice worth while.
const TURNS: u64 = 64;

/// What an open ledger knows of its archive.
#[derive(Default)]
pub(crate) struct Archive {
    /// Turns that have ended since the last slice was asked for.
    ended: AtomicU64,
    sweep: Mutex<Sweep>,
}

impl Archive {
    /// A turn has ended.
    pub(crate) fn ended(self: &Arc<Self>, writer: &Arc<Writer>) {
        if self.ended.fetch_add(1, Ordering::Relaxed) + 1 >= TURNS {
            self.begin(writer);
        }
    }

    /// What a turn that ends now has to check of `retention`. Counting many runs takes time, and is done for some turns together.
    pub(crate) fn to_check(&self, retention: &Retention) -> Retention {
        let is_due = self.ended.load(Ordering::Relaxed) == 0;
        let turns = retention.turns.filter(|turns| is_due || u64::from(*turns) <= TURNS);
        Retention { age: retention.age, turns }
    }

    /// Archives what has ended, a slice at a time.
    pub(crate) fn begin(self: &Arc<Self>, writer: &Arc<Writer>) {
        self.ended.store(0, Ordering::Relaxed);
        writer.post(Box::new(self.slice(writer, false)));
    }

    /// Archives what has ended while the ledger closes, in one job.
    pub(crate) fn finish(self: &Arc<Self>, writer: &Arc<Writer>) {
        if self.ended.load(Ordering::Relaxed) > 0 {
            writer.post(Box::new(self.slice(writer, true)));
        }
    }

    fn slice(self: &Arc<Self>, writer: &Arc<Writer>, whole: bool) -> Slice {
        Slice {
            archive: Arc::clone(self),
            writer: Arc::downgrade(writer),
            whole,
            sweep: Sweep::default(),
            more: false,
        }
    }
}

struct Slice {
    archive: Arc<Archive>,
    writer: Weak<Writer>,
    /// Whether nothing comes after it.
    whole: bool,
    sweep: Sweep,
    more: bool,
}

impl Job for Slice {
    fn run(&mut self, connection: &Connection) -> bool {
        // A job may be run again: what it has done counts once it is in the file.
        self.sweep = *self.archive.sweep.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match archive_rows::slice(connection, &mut self.sweep) {
                Ok(more) => self.more = more,
                // Tried again with the next ones.
                Err(_) => return false,
            }
            if !(self.more && self.whole) {
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
