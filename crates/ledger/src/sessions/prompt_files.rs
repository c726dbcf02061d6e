//! The files of a workspace as the system prompt of a session has them, from one compaction to the next.
//!
//! It must never read a file, and no request is built from a row that was altered. An export has none of them: a session that is
//! imported reads the files of its new workspace.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::sqlite::checksum::{is_whole, replace_all};
use crate::sqlite::columns::columns;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;

/// A row of `session_prompts`.
struct SessionPrompt<'r> {
    session_label: &'r str,
    request_json: &'r str,
    files_json: &'r str,
    created_at: i64,
}

columns!(for<'r> SessionPrompt<'r> { session_label, request_json, files_json, created_at });

pub(crate) static FILES: LazyLock<String> = LazyLock::new(|| {
    let whole = is_whole("session_prompts", "p");
    format!(
        "SELECT files_json FROM session_prompts p WHERE session_label = ?1 AND request_json = ?2 AND {whole}"
    )
});
static SET: LazyLock<String> =
    LazyLock::new(|| replace_all::<SessionPrompt<'_>>("session_prompts"));

/// The files of a session's prompt, if this request has read them.
pub(crate) fn files(connection: &Connection, label: &str, request: &str) -> Stored<Option<String>> {
    let doing = format_args!("read the prompt's files of session `{label}`");
    sql::optional(connection, &FILES, (label, request), doing)
}

/// Stores the files that a request has read, in place of others.
pub(crate) fn set(
    connection: &Connection,
    (session_label, request_json): (&str, &str),
    files_json: &str,
    created_at: i64,
) -> Stored<()> {
    let doing = format_args!("write the prompt's files of session `{session_label}`");
    let row = SessionPrompt { session_label, request_json, files_json, created_at };
    sql::insert(connection, &SET, &row, doing)
}

/// The next turn reads the files again.
pub(crate) fn forget(connection: &Connection, label: &str) -> Stored<()> {
    let doing = format_args!("delete the prompt's files of session `{label}`");
    sql::exec(connection, "DELETE FROM session_prompts WHERE session_label = ?1", (label,), doing)
        .map(drop)
}
