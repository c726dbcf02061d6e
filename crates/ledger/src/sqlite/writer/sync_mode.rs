//! Whether a transaction of the writer waits for the disk, and the recovery after a failure of the disk.
//!
//! A commit must never follow one that may not be on the disk.

use std::time::Duration;

use rusqlite::Connection;

use crate::sqlite::connection::BUSY_TIMEOUT;
use crate::sqlite::error::{Stored, sqlite};
use crate::sqlite::synchronous::Synchronous;

/// How long a background transaction waits for another process's lock.
const BRIEF: Duration = Duration::from_millis(250);

/// How long the next transaction waits for the disk and for other processes.
pub(super) struct SyncMode {
    synchronous: Synchronous,
    full: bool,
    /// A write or a sync of the log has failed: a part of it may never reach the disk, although it can be read.
    pub(super) unsure: bool,
}

impl SyncMode {
    /// The mode of a connection that was opened for `synchronous`.
    pub(super) fn new(synchronous: Synchronous) -> Self {
        Self { synchronous, full: true, unsure: false }
    }

    /// Resets the log after a failure, because a commit must not follow one that may not be on the disk. The system reports
    /// a failed sync once, and afterwards treats the pages as written.
    pub(super) fn renew_log(&mut self, connection: &Connection) -> Stored<()> {
        if self.unsure {
            connection
                .wal_checkpoint_v2(Some(rusqlite::MAIN_DB), rusqlite::wal::CheckpointMode::TRUNCATE)
                .map_err(|error| sqlite("begin the ledger's log anew after an error", &error))?;
            self.unsure = false;
        }
        Ok(())
    }

    /// Configures the connection for a transaction that waits for the disk (`full`), or does not.
    pub(super) fn set(&mut self, connection: &Connection, full: bool) -> Stored<()> {
        if full == self.full {
            return Ok(());
        }
        let failed = |error| sqlite("configure the ledger's connection", &error);
        connection.busy_timeout(if full { BUSY_TIMEOUT } else { BRIEF }).map_err(failed)?;
        if self.synchronous == Synchronous::Full {
            let mode = if full { Synchronous::Full } else { Synchronous::Normal };
            connection.pragma_update(None, "synchronous", mode.pragma()).map_err(failed)?;
        }
        self.full = full;
        Ok(())
    }
}
