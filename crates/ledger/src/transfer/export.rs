//! `export`: writes one snapshot to a new file. It must never leave an incomplete file.

use std::path::Path;

use super::rows::SqliteRows;
use crate::open::draft;
use crate::sqlite::error::Stored;
use base::clock::Clock;
use model::{LedgerExport, LedgerFormat};
use portable::{Export, at_once};

/// Writes a session, or all of them without a label, to a new file, from one snapshot.
pub(crate) fn export(
    connection: &rusqlite::Connection,
    to: &Path,
    format: LedgerFormat,
    label: Option<&str>,
    (ledger_id, clock): (&str, &Clock),
) -> Stored<LedgerExport> {
    let rows = SqliteRows { connection, clock, remembers: false };
    let (path, out) = draft::write(to, clock, |draft| {
        let of = Export { format, label, ledger_id, now: clock.now_ms() };
        at_once(portable::export(&rows, draft, of))
    })?;
    Ok(LedgerExport { path: path.to_string_lossy().into_owned(), ..out })
}
