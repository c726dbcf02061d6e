//! A new ledger: written completely under a temporary name, then renamed.
//!
//! An incomplete ledger must never be visible.

use std::path::Path;

use crate::open::draft;
use crate::sqlite::connection::fill_draft;
use crate::sqlite::error::{self, Stored, sqlite};
use crate::sqlite::file;
use base::clock::Clock;

/// Creates a new ledger under a temporary name and renames it to `path`, so that an incomplete one is never visible. If
/// another process is first, its ledger stays.
pub(crate) fn create(path: &Path, clock: &Clock) -> Stored<()> {
    file::check_no_orphan_log(path)?;
    let draft = draft::name(path, clock);
    let made = draft_ledger(&draft, clock).and_then(|()| {
        file::rename_new(&draft, path).map_err(|error| {
            error::file(&format!("create the ledger `{}`", path.display()), &error)
        })
    });
    if !matches!(made, Ok(true)) {
        draft::remove(&draft);
    }
    made.map(drop)
}

fn draft_ledger(draft: &Path, clock: &Clock) -> Stored<()> {
    file::create_private(draft).map_err(|error| {
        error::file(&format!("create the ledger `{}`", draft.display()), &error)
    })?;
    let connection = fill_draft(draft, clock)?;
    connection.close().map_err(|(_, error)| sqlite("create the ledger", &error))
}
