//! Calls on the file as a whole: verify, backup, stats, vacuum, export, import, salvage.
//!
//! Each is carried out by its room. It must never contain SQL.

use std::path::Path;
use std::sync::Arc;

use crate::handle::ledger::Ledger;
use crate::maintenance::{backup, stats, vacuum, verify};
use crate::salvage::{self, LedgerSalvage};
use crate::sqlite::error::Stored;
use crate::sqlite::readers;
use crate::transfer::{self, Target};
use base::clock::Clock;
use model::{
    LedgerBackup, LedgerExport, LedgerFormat, LedgerImport, LedgerReport, LedgerStats,
    LedgerVacuum, StorageError, StorageErrorKind,
};

impl Ledger {
    /// Reads the whole file and compares it with what must hold: SQLite's own integrity, every checksum, every
    /// invariant of [`model::LedgerCheck`]. Runs go on meanwhile. What is wrong is in the report, not an error.
    ///
    /// # Errors
    /// Any of storage, other than damage.
    pub async fn verify(&self) -> Stored<LedgerReport> {
        let core = self.core()?;
        let (path, clock) = (core.path.clone(), self.clock.clone());
        let pool = Arc::clone(&core.readers);
        core.readers.beside(move || verify::verify(&path, &clock, &pool)).await
    }

    /// Copies the ledger, as it stands at one moment, to a new file at `path` that only its owner can read. Runs go on
    /// and commit meanwhile.
    ///
    /// # Errors
    /// `storage_exists` where there is a file already; any of storage. No part of a copy is left then.
    pub async fn backup(&self, path: &Path) -> Stored<LedgerBackup> {
        let core = self.core()?;
        let (from, to, clock) = (core.path.clone(), path.to_owned(), self.clock.clone());
        let pool = Arc::clone(&core.readers);
        core.readers.beside(move || backup::backup(&from, &to, &clock, &pool)).await
    }

    /// What is in the ledger, and how large it is.
    ///
    /// # Errors
    /// Any of storage.
    pub async fn stats(&self) -> Stored<LedgerStats> {
        let core = self.core()?;
        let path = core.path.clone();
        core.readers
            .run(move |connection| {
                readers::snapshot(connection, |connection| stats::stats(connection, &path))
            })
            .await
    }

    /// Rewrites the file without its free pages. Commits wait meanwhile, and the disk needs room for a second copy.
    ///
    /// # Errors
    /// `storage_locked` where another process writes, `storage_full`, any of storage. The ledger is as it was then.
    pub async fn vacuum(&self) -> Stored<LedgerVacuum> {
        let core = self.core()?;
        let path = core.path.clone();
        core.writer.submit_alone(move |connection| vacuum::vacuum(connection, &path)).await
    }

    /// Writes a session, or with `ledger` all of them, to a new file at `path`, from one moment.
    ///
    /// # Errors
    /// `storage_exists` where there is a file already; `unknown_session`; any of storage. No part of a file is left then.
    pub async fn export(
        &self,
        path: &Path,
        format: LedgerFormat,
        label: Option<String>,
    ) -> Stored<LedgerExport> {
        let core = self.core()?;
        let (to, ledger_id, clock) = (path.to_owned(), core.ledger_id.clone(), self.clock.clone());
        let write = move |connection: &rusqlite::Connection| {
            transfer::export(connection, &to, format, label.as_deref(), (&ledger_id, &clock))
        };
        core.readers.run(|connection| readers::snapshot(connection, write)).await
    }

    /// Takes the sessions of a file in. A line that cannot be taken is in the report; everything else is imported.
    /// Importing a file again changes nothing.
    ///
    /// # Errors
    /// `invalid_import` for what is no file of that format; any of storage. What was imported until then stays, unseen
    /// until the import is done again.
    pub async fn import(
        &self,
        path: &Path,
        format: LedgerFormat,
        label: Option<String>,
    ) -> Stored<LedgerImport> {
        let core = self.core()?;
        let path = path.to_owned();
        let target = Target {
            writer: Arc::clone(&core.writer),
            poller: Arc::clone(&core.poller),
            clock: self.clock.clone(),
            runtime: tokio::runtime::Handle::current(),
        };
        core.readers.beside(move || transfer::import(&path, format, label, target)).await
    }

    /// Reads what can be read of the damaged ledger at `damaged` into a fresh one at `fresh`.
    ///
    /// # Errors
    /// `invalid_import` where there is no file, or nothing of a ledger in it; `storage_exists` where `fresh` is there;
    /// `ledger_in_use` while this process has the damaged one open; any of storage. Nothing is left at `fresh` then.
    pub async fn salvage(damaged: &Path, fresh: &Path, clock: Clock) -> Stored<LedgerSalvage> {
        let (damaged, fresh) = (damaged.to_owned(), fresh.to_owned());
        tokio::task::spawn_blocking(move || salvage::salvage(&damaged, &fresh, &clock))
            .await
            .unwrap_or_else(|_| {
                Err(StorageError::new(
                    StorageErrorKind::Io,
                    "the salvage was cut off by the end of its runtime, or by a bug; try again",
                ))
            })
    }
}
