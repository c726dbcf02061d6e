//! The options for opening a ledger, and their defaults. It must never read the disk.

use std::path::PathBuf;
use std::time::Duration;

use crate::sqlite::synchronous::Synchronous;
use model::Retention;

/// Where the ledger is and how it is written.
#[derive(Debug, Clone)]
pub struct LedgerOptions {
    /// The file. Its folder is created, for the owner alone, where it is missing.
    pub path: PathBuf,
    /// How far a commit waits for the disk. The first to open a ledger in a process decides for all.
    pub synchronous: Synchronous,
    /// How long a session stays leased to a process that does not renew the lease. The first open of a ledger in a process
    /// decides for all.
    pub lease: Duration,
    /// How long the events of runs are stored; `None` stores none. The first open of a ledger in a process decides for all.
    pub events: Option<Retention>,
    /// The log's size in bytes at which a read that pins it is ended. The first open of a ledger in a process decides for
    /// all.
    pub log_bound: u64,
}

impl LedgerOptions {
    /// The default lease: long enough for a slow process, short enough to wait for its end.
    pub const DEFAULT_LEASE: Duration = Duration::from_secs(15);
    /// The default bound of the log.
    pub const LOG_BOUND: u64 = 256 << 20;

    /// A ledger at `path` that waits for the disk.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self {
            path,
            synchronous: Synchronous::Full,
            lease: Self::DEFAULT_LEASE,
            events: Some(Retention::default()),
            log_bound: Self::LOG_BOUND,
        }
    }
}
