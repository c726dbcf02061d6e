//! The deletion of expired events, as a job of the writer that comes again until nothing is left to delete.
//!
//! It must never hold up a turn: its transactions are short, and do not wait for the disk.

use std::sync::{Arc, Weak};

use rusqlite::Connection;

use crate::journal_rows::archive_rows;
use crate::lease::claim::Claim;
use crate::sqlite::writer::{Job, Writer};
use model::{Retention, StorageError};

/// Submits the deletion of the events whose retention is over.
pub(crate) fn trim(writer: &Arc<Writer>, claim: &Claim, retention: &Retention) {
    writer.post(Box::new(Trim {
        writer: Arc::downgrade(writer),
        retention: retention.clone(),
        claim: claim.clone(),
        more: false,
    }));
}

/// Deletes old events, a few rows at a time.
struct Trim {
    writer: Weak<Writer>,
    retention: Retention,
    claim: Claim,
    more: bool,
}

impl Job for Trim {
    fn run(&mut self, connection: &Connection) -> bool {
        self.more = false;
        match archive_rows::trim(connection, &self.retention, self.claim.clock.now_ms()) {
            Ok(more) => {
                self.more = more;
                true
            }
            // Tried again at the end of the next run.
            Err(_) => false,
        }
    }

    fn waits_for_disk(&self) -> bool {
        false
    }

    fn answer(self: Box<Self>, failure: Option<&StorageError>) {
        if let Some(writer) = self.writer.upgrade().filter(|_| failure.is_none() && self.more) {
            writer.post(self);
        }
    }
}
