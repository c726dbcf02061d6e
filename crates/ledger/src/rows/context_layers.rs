//! The layers of a message's context, in its column `context_json`: most messages have none.
//!
//! It must never be read to build a request.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::sqlite::checksum::set as assignments;
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::RecordedLayer;

static SET: LazyLock<String> = LazyLock::new(|| {
    let change = assignments(&[("context_json", "?3")]);
    format!(
        "UPDATE message_rows SET {change} WHERE key BETWEEN ?1 << 20 AND ?1 << 20 | 1048575 AND id = ?2"
    )
});

/// Stores the layers of a message of the turn with the number `turn`: JSON.
pub(crate) fn set(connection: &Connection, turn: i64, message: &str, json: &str) -> Stored<()> {
    let doing = format_args!("write the layers of message `{message}`");
    sql::exec(connection, &SET, (turn, message, json), doing).map(drop)
}

/// The layers in the column of a message.
///
/// # Errors
/// `ledger_corrupt` where it cannot be read.
pub(crate) fn of_column(json: Option<&str>) -> Stored<Option<Vec<RecordedLayer>>> {
    json.map(serde_json::from_str)
        .transpose()
        .map_err(|error| damaged(&format!("the layers of a message cannot be read: {error}")))
}
