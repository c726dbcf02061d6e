//! A new ledger: made whole under a temporary name, and renamed.
//!
//! It must never show anyone half of one.

use std::path::Path;

use crate::open::draft;
use crate::sqlite::connection::fill_draft;
use crate::sqlite::error::{self, Stored, sqlite};
use crate::sqlite::file;
use base::clock::Clock;

/// Makes a whole new ledger under another name and moves it to `path`, so that nobody ever sees half of one. Another
/// process may win; then its ledger stands there.
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
