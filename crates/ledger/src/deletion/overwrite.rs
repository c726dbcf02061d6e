//! `secure`: nothing of what was deleted is left in the file, its free pages or its log. The file is rewritten.
//!
//! It must never report more than it has done: another process that reads may hold the log back.

use std::path::Path;
use std::sync::LazyLock;

use rusqlite::Connection;

use crate::maintenance::vacuum;
use crate::sqlite::checksum::insert;
use crate::sqlite::error::{Stored, sqlite};
use crate::sqlite::sql;

const DOING: &str = "overwrite what was deleted";

/// The contexts of ended runs, which are stored only because the next run may have the same.
const CONTEXTS: &str = "DELETE FROM run_contexts WHERE id NOT IN (
     SELECT context_id FROM runs INDEXED BY runs_in_journal WHERE in_journal = 1 AND ended_at IS NULL AND context_id IS NOT NULL)";

/// The newest text stays, so that its number is not given again: an empty one takes that place.
static NEWEST_STRING: LazyLock<String> = LazyLock::new(|| {
    let next = "(SELECT coalesce(max(id), 0) + 1 FROM strings)";
    insert("strings", &[("id", next), ("text", "''")])
});
/// The texts that no turn has any more.
const STRINGS: &str = "DELETE FROM strings WHERE id < (SELECT max(id) FROM strings) AND id NOT IN (
     SELECT model FROM turn_rows WHERE model IS NOT NULL UNION SELECT provider FROM turn_rows WHERE provider IS NOT NULL
     UNION SELECT toolset_name FROM turn_rows WHERE toolset_name IS NOT NULL
     UNION SELECT tools_available FROM turn_rows WHERE tools_available IS NOT NULL
     UNION SELECT permissions_granted FROM turn_rows WHERE permissions_granted IS NOT NULL
     UNION SELECT permissions_used FROM turn_rows WHERE permissions_used IS NOT NULL
     UNION SELECT workspace_path FROM turn_rows WHERE workspace_path IS NOT NULL
     UNION SELECT error_code FROM turn_rows WHERE error_code IS NOT NULL
     UNION SELECT provider FROM message_rows WHERE provider IS NOT NULL
     UNION SELECT api FROM message_rows WHERE api IS NOT NULL
     UNION SELECT model FROM message_rows WHERE model IS NOT NULL
     UNION SELECT stop_reason FROM message_rows WHERE stop_reason IS NOT NULL
     UNION SELECT result_of FROM message_rows WHERE result_of IS NOT NULL
     UNION SELECT tool_name FROM call_rows WHERE tool_name IS NOT NULL)";

/// Rewrites the file without free pages, and empties the log. False if a reader holds the log back.
pub(crate) fn overwrite(connection: &Connection, path: &Path) -> Stored<bool> {
    let secure = |on: bool| {
        connection.pragma_update(None, "secure_delete", on).map_err(|error| sqlite(DOING, &error))
    };
    secure(true)?;
    let done = sql::exec(connection, CONTEXTS, (), DOING)
        .and_then(|_| sql::exec(connection, &NEWEST_STRING, (), DOING))
        .and_then(|_| sql::exec(connection, STRINGS, (), DOING))
        .and_then(|_| vacuum::vacuum(connection, path));
    secure(false)?;
    done?;
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let is_empty = std::fs::metadata(&log).map_or(true, |log| log.len() == 0);
    Ok(is_empty)
}
