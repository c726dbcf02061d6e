//! Care of a ledger: is it whole, a copy of it, what is in it, and its free pages given back.
//!
//! Owns `verify`, `backup`, `stats` and `vacuum` as the host calls them. It must never change what a turn says.

mod backup;
mod check;
mod index;
mod shape;
mod stats;
mod vacuum;
mod verify;

use std::path::Path;

use crate::handle::ledger::Ledger;
use crate::sqlite::error::Stored;
use crate::sqlite::readers;
use model::{LedgerBackup, LedgerReport, LedgerStats, LedgerVacuum};

impl Ledger {
    /// Reads the whole file and compares it with what must hold: SQLite's own integrity, every checksum, every
    /// invariant of [`LedgerCheck`]. Runs go on meanwhile. What is wrong is in the report, not an error.
    ///
    /// # Errors
    /// Any of storage, other than damage.
    pub async fn verify(&self) -> Stored<LedgerReport> {
        let core = self.core()?;
        let (path, clock) = (core.path.clone(), self.clock.clone());
        let pool = std::sync::Arc::clone(&core.readers);
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
        let pool = std::sync::Arc::clone(&core.readers);
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
}
