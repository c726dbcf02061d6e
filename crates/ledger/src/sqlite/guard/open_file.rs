//! Checks that the open ledger is still the file at its path, and that the engine's SQLite is the only one in this process
//! that uses it.
//!
//! It is checked before and after each commit, and before each read. A fault is permanent: it refuses every later call, because
//! the locks or the log that the connections rely on are lost. It must never open the ledger's file: closing that
//! descriptor would drop the locks that it checks.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::sqlite::error::Stored;
use crate::sqlite::file::{self, FileId};
use base::clock::Clock;
use base::telemetry;
use model::{StorageError, StorageErrorKind};

/// The longest time for which another SQLite in this process stays unnoticed while the ledger is used.
const INTERVAL: Duration = Duration::from_secs(1);

/// The guard of the file of one open ledger.
pub(crate) struct Guard {
    path: PathBuf,
    ledger: FileId,
    /// The `-wal` and `-shm` files, known once the writer's connection is open.
    companions: OnceLock<Companions>,
    fault: OnceLock<StorageError>,
    searched: Mutex<Option<Instant>>,
    clock: Clock,
}

struct Companions {
    log: Option<FileId>,
    index: Option<FileId>,
    /// Whether the system's list shows the lock that SQLite holds on the `-shm` file.
    shows_lock: bool,
}

impl Guard {
    /// A guard of the file `ledger` at `path`, which is not open yet.
    pub(crate) fn new(path: &Path, ledger: FileId, clock: &Clock) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            ledger,
            companions: OnceLock::new(),
            fault: OnceLock::new(),
            searched: Mutex::default(),
            clock: clock.clone(),
        })
    }

    /// Records the companions that the first connection has created.
    pub(crate) fn opened(&self) {
        let find = |suffix| file::id_at(&file::companion(&self.path, suffix)).ok().flatten();
        let (log, index) = (find("-wal"), find("-shm"));
        let shows_lock = index.as_ref().and_then(super::locks::shows).unwrap_or_default();
        let _ = self.companions.set(Companions { log, index, shows_lock });
    }

    /// Whether the file is still the one that was opened, and only the engine uses it in this process.
    ///
    /// # Errors
    /// `ledger_replaced`, `ledger_in_use`; every later call returns the same error.
    pub(crate) fn check(&self) -> Stored<()> {
        let found = match self.fault.get() {
            Some(fault) => return Err(fault.clone()),
            None => self.moved().and_then(|()| self.search()),
        };
        found.inspect_err(|fault| {
            if self.fault.set(fault.clone()).is_ok() {
                telemetry::storage_failed(fault.kind.code());
            }
        })
    }

    /// Whether no fault was found so far.
    pub(crate) fn is_sound(&self) -> bool {
        self.fault.get().is_none()
    }

    /// Whether the last checkpoint may run. It must not write to a file that others may have written since its log was
    /// removed, nor while a second SQLite uses it. The checkpoint of a ledger that was moved is allowed: it empties the log,
    /// which would otherwise be replayed into the new file at the path.
    pub(crate) fn may_checkpoint(&self) -> bool {
        match self.fault.get() {
            None => true,
            Some(fault) => fault.kind == StorageErrorKind::Replaced && self.log_is_ours(),
        }
    }

    /// Whether the log at the path is the open ledger's: then no other file may be opened there.
    pub(crate) fn log_is_ours(&self) -> bool {
        self.companions.get().is_some_and(|companions| {
            [(&companions.log, "-wal"), (&companions.index, "-shm")].iter().all(|(id, suffix)| {
                let there = file::id_at(&file::companion(&self.path, suffix)).ok().flatten();
                id.is_some() && there == **id
            })
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn moved(&self) -> Stored<()> {
        self.compare(&self.path, &self.ledger, "")?;
        let Some(companions) = self.companions.get() else { return Ok(()) };
        for (id, suffix) in [(&companions.log, "-wal"), (&companions.index, "-shm")] {
            if let Some(id) = id {
                self.compare(&file::companion(&self.path, suffix), id, suffix)?;
            }
        }
        Ok(())
    }

    fn compare(&self, path: &Path, id: &FileId, suffix: &str) -> Stored<()> {
        // If the path cannot be read, there is no evidence of a fault: the descriptors are still valid.
        let Ok(there) = file::id_at(path) else { return Ok(()) };
        let how = match &there {
            Some(there) if there == id => return Ok(()),
            Some(_) => "replaced by another",
            None => "deleted",
        };
        let what =
            if suffix.is_empty() { String::new() } else { format!("the `{suffix}` file of ") };
        Err(StorageError::new(
            StorageErrorKind::Replaced,
            format!(
                "{what}the ledger `{}` was {how} while it was open, and nothing more is written to it; close the \
                 engine, put the ledger back where it is missing, and open it again",
                self.path.display()
            ),
        ))
    }

    /// Searches for another SQLite, unless the last search was less than [`INTERVAL`] ago.
    fn search(&self) -> Stored<()> {
        let Some(companions) = self.companions.get() else { return Ok(()) };
        {
            let mut searched = self.searched.lock().unwrap_or_else(PoisonError::into_inner);
            let now = self.clock.instant();
            if searched.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL) {
                return Ok(());
            }
            *searched = Some(now);
        }
        let files: Vec<&FileId> =
            [Some(&self.ledger), companions.log.as_ref(), companions.index.as_ref()]
                .into_iter()
                .flatten()
                .collect();
        if super::descriptors::strangers(&files) {
            return Err(self.in_use("has been opened"));
        }
        let dropped = companions.shows_lock
            && companions.index.as_ref().and_then(super::locks::shows) == Some(false);
        if dropped { Err(self.in_use("was opened and closed")) } else { Ok(()) }
    }

    fn in_use(&self, how: &str) -> StorageError {
        StorageError::new(
            StorageErrorKind::InUse,
            format!(
                "the ledger `{}` {how} by another SQLite library in this process, or a second copy of this package, \
                 which takes its locks away: nothing more is written to it; close that one and this engine, open the \
                 ledger again, and read through `engine.ledger.query(sql, params)`",
                self.path.display()
            ),
        )
    }
}
