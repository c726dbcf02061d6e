//! The file rewritten without its free pages, on the writer's own connection.
//!
//! It must never run inside a transaction, nor leave the connection otherwise than it found it.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::limits::Limit;
use rusqlite::wal::CheckpointMode;

use super::journal_check;
use crate::sqlite::error::{self, Stored, sqlite};
use model::LedgerVacuum;

pub(crate) fn vacuum(connection: &Connection, path: &Path) -> Stored<LedgerVacuum> {
    let failed = |error| sqlite("vacuum the ledger", &error);
    let size = || {
        std::fs::metadata(path)
            .map(|metadata| metadata.len())
            .map_err(|error| error::file("look at the ledger", &error))
    };
    // What is still in the log counts as well.
    checkpoint(connection).map_err(failed)?;
    let bytes_before = size()?;
    let open = journal_check::open_turns(connection, &mut |_, _, _| {})?;
    let named = serde_json::to_string(&open.blobs).unwrap_or_else(|_| "[]".to_owned());
    let done = rewrite(connection, &named);
    // As every connection has it, whatever came of the above.
    let restored = connection
        .pragma_update(None, "temp_store", "MEMORY")
        .and_then(|()| connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0).map(drop));
    done.and(restored).map_err(failed)?;
    checkpoint(connection).map_err(failed)?;
    Ok(LedgerVacuum { bytes_before, bytes_after: size()? })
}

fn rewrite(connection: &Connection, named: &str) -> rusqlite::Result<()> {
    // SQLite attaches the new file to do it, and a ledger does not fit into memory.
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 1)?;
    connection.pragma_update(None, "temp_store", "FILE")?;
    // What no row names any more, nor a turn under way.
    connection.execute(
        "DELETE FROM blobs WHERE hash NOT IN (SELECT hash FROM blob_references WHERE hash IS NOT NULL)
           AND hash NOT IN (SELECT value FROM json_each(?1))",
        (named,),
    )?;
    // The index of words in one piece, before the room that its pieces took is given back.
    connection.execute("INSERT INTO message_words (message_words) VALUES ('optimize')", ())?;
    connection.execute_batch("VACUUM")
}

fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection.wal_checkpoint_v2(Some(rusqlite::MAIN_DB), CheckpointMode::TRUNCATE).map(drop)
}
