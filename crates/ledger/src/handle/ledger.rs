//! The handle to an open ledger: opening it, salvaging a damaged one, and the helpers that the ports share.
//!
//! Handles of one file share the open ledger. It must never hold a transaction across an await.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rusqlite::Connection;

use crate::lease::claim::Claim;
use crate::open::options::LedgerOptions;
use crate::open::registry::{self, OpenLedger};
use crate::salvage::{self, LedgerSalvage};
use crate::sqlite::error::{Stored, closed};
use crate::sqlite::readers;
use base::clock::Clock;
use model::{MemoryWake, PortFuture, StorageError, StorageErrorKind};

/// A handle to an open ledger. Handles of one file share one writer and one set of readers.
pub struct Ledger {
    core: Mutex<Option<Arc<OpenLedger>>>,
    pub(crate) clock: Clock,
    /// Wakes the memory of this handle's engine, if it has one.
    pub(crate) memory: OnceLock<MemoryWake>,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ledger").finish_non_exhaustive()
    }
}

impl Ledger {
    /// Opens the ledger, or creates it whole. Blocks on the disk.
    ///
    /// # Errors
    /// A file that is foreign, newer, damaged, empty, read-only, on a network file system or held by another SQLite in
    /// this process; it is left byte for byte as it was.
    pub fn open(options: &LedgerOptions, clock: Clock) -> Result<Arc<Self>, StorageError> {
        let core = registry::acquire(options, &clock)?;
        Ok(Arc::new(Self { core: Mutex::new(Some(core)), clock, memory: OnceLock::new() }))
    }

    /// Opens the ledger at a path that this process has open already, as another process would: with a separate writer,
    /// readers and leases. The caller must call [`OpenLedger::stop`].
    #[cfg(test)]
    pub(crate) fn open_separately(
        options: &LedgerOptions,
        clock: Clock,
    ) -> Result<Arc<Self>, StorageError> {
        let core = registry::open_separately(options, &clock)?;
        Ok(Arc::new(Self { core: Mutex::new(Some(core)), clock, memory: OnceLock::new() }))
    }

    /// Reads what can be read of the damaged ledger at `damaged` into a fresh one at `fresh`.
    ///
    /// # Errors
    /// `invalid_import` if there is no file, or no ledger data in it; `storage_exists` if `fresh` exists; `ledger_in_use`
    /// while this process has the damaged one open; any of storage. Nothing is left at `fresh` then.
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

    pub(crate) fn core(&self) -> Stored<Arc<OpenLedger>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(closed)
    }

    /// A turn was noted for the memory.
    pub(crate) fn wake_memory(&self) {
        if let Some(wake) = self.memory.get() {
            wake();
        }
    }

    /// Closes this handle. Returns the ledger that was open through it.
    pub(crate) fn take(&self) -> Option<Arc<OpenLedger>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Reads from one snapshot.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Stored<T> + Send + 'static,
    ) -> PortFuture<'_, T> {
        Box::pin(async move {
            self.core()?.readers.run(|connection| readers::snapshot(connection, read)).await
        })
    }

    /// Like [`Ledger::read`], for a few rows: on the caller's thread if a reader is free.
    pub(crate) fn read_small<T: Send + 'static>(
        &self,
        mut read: impl FnMut(&Connection) -> Stored<T> + Send + 'static,
    ) -> PortFuture<'_, T> {
        Box::pin(async move {
            let read = move |connection: &mut Connection| readers::snapshot(connection, &mut read);
            self.core()?.readers.run_small(read).await
        })
    }

    /// Like [`Ledger::read_small`], for a single statement, which needs no transaction for a consistent view.
    pub(crate) fn read_row<T: Send + 'static>(
        &self,
        mut read: impl FnMut(&Connection) -> Stored<T> + Send + 'static,
    ) -> PortFuture<'_, T> {
        Box::pin(async move {
            self.core()?
                .readers
                .run_small(move |connection: &mut Connection| read(connection))
                .await
        })
    }

    /// Runs a job of the writer, submitted when it is awaited.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Connection, &Claim) -> Stored<T> + Send + 'static,
    ) -> PortFuture<'_, T> {
        Box::pin(async move {
            let core = self.core()?;
            let claim = core.claim.clone();
            core.writer.submit(move |connection| work(connection, &claim)).await
        })
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if let Some(core) = self.take() {
            registry::release(&core);
        }
    }
}
