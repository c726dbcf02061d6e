//! A copy of the ledger while it is in use.
//!
//! It is written under a temporary name from one snapshot and renamed when it is complete, so an incomplete copy is never
//! visible. It must never overwrite a file.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};

use crate::open::draft;
use crate::sqlite::connection::{self, Purpose};
use crate::sqlite::error::{self, Stored, sqlite};
use crate::sqlite::readers::{self, Readers};
use base::clock::Clock;
use model::{LedgerBackup, StorageError, StorageErrorKind};

/// Pages copied at once (docs/rules/faults.md#connection-settings).
const PAGES: i32 = 256;

pub(crate) fn backup(
    from: &Path,
    to: &Path,
    clock: &Clock,
    pool: &Readers,
) -> Stored<LedgerBackup> {
    let mut source = connection::open(from, Purpose::Read)?;
    let under_way = pool.begin(&mut source);
    let (path, bytes) = draft::write(to, clock, |draft| {
        let mut target = connection::open_draft(draft)?;
        let failed = |error| sqlite("copy the ledger", &error);
        // The open read of the source pins its snapshot: commits of others neither wait nor restart the copy.
        readers::snapshot(&mut source, |source| {
            source.query_row("SELECT count(*) FROM schema_meta", (), |_| Ok(())).map_err(failed)?;
            let copy = Backup::new(source, &mut target).map_err(failed)?;
            loop {
                // Between two steps no statement runs that an interrupt could end.
                under_way.check()?;
                match copy.step(PAGES).map_err(failed)? {
                    StepResult::Done => return Ok(()),
                    StepResult::More => {}
                    _ => {
                        return Err(StorageError::new(
                            StorageErrorKind::Locked,
                            "the ledger could not be copied: another process holds the lock; try again",
                        ));
                    }
                }
            }
        })?;
        target.close().map_err(|(_, error)| sqlite("copy the ledger", &error))?;
        std::fs::metadata(draft)
            .map(|metadata| metadata.len())
            .map_err(|error| error::file("read the size of the copy of the ledger", &error))
    })?;
    Ok(LedgerBackup { path: path.to_string_lossy().into_owned(), bytes })
}
