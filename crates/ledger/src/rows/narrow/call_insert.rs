//! Writes a row of `call_rows`: without the values that a message of its turn has, and with the checksum of the values that the
//! view `call_values` shows.
//!
//! It must never write a value that the view does not give back.

use std::fmt::Display;
use std::sync::LazyLock;

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, params_from_iter};

use crate::rows::narrow::shared_values::{SharedResult, SharedValues};
use crate::rows::narrow::strings;
use crate::rows::narrow::words::{CALL_STATUSES, REPLAYS, number};
use crate::rows::tool_call_rows::ToolCallColumns;
use crate::sqlite::checksum::RowSum;
use crate::sqlite::columns::{columns, list, values};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{StorageError, StorageErrorKind};

/// The columns of `call_rows` that the ledger writes, without the hash of the arguments and the checksum of the row.
pub(crate) struct NarrowCall<'r> {
    id: &'r str,
    key: i64,
    provider_call_id: &'r str,
    message: Option<u32>,
    block: Option<i64>,
    tool_name: Option<i64>,
    status: i64,
    spawned_session_label: Option<&'r str>,
    started_at: i64,
    completed_at: Option<i64>,
    error: Option<&'r str>,
    params_json: Option<&'r str>,
    result_json: Option<&'r str>,
    result_message: Option<u32>,
    result_at: Option<i64>,
    replay: Option<i64>,
    blobs_json: Option<&'r str>,
}

columns!(for<'r> NarrowCall<'r> {
    id,
    key,
    provider_call_id,
    message,
    block,
    tool_name,
    status,
    spawned_session_label,
    started_at,
    completed_at,
    error,
    params_json,
    result_json,
    result_message,
    result_at,
    replay,
    blobs_json,
});

static SUM: LazyLock<RowSum> = LazyLock::new(|| RowSum::of::<ToolCallColumns<'_>>("call_values"));
static ADD: LazyLock<String> = LazyLock::new(|| {
    let names = list::<NarrowCall<'_>>() + ", arguments_hash, row_checksum";
    let parameters = vec!["?"; names.split(", ").count()].join(", ");
    format!("INSERT INTO call_rows ({names}) VALUES ({parameters})")
});

/// Writes a call of a turn whose messages are written.
///
/// # Errors
/// `storage_constraint` for an id that exists already, or a message that the turn does not have.
pub(crate) fn insert(
    connection: &Connection,
    row: &ToolCallColumns<'_>,
    shared: &SharedValues,
    doing: impl Display,
) -> Stored<()> {
    let [tool_name] = strings::ids(connection, [Some(row.tool_name)])?;
    let message = match row.message_id {
        None => None,
        Some(id) => Some(shared.position(id).ok_or_else(|| unknown_message(id))?),
    };
    let is_small = row.blobs_json.is_none();
    let block = message
        .zip(row.params_json)
        .filter(|_| is_small)
        .and_then(|(message, params)| shared.block(message, row.provider_call_id, params));
    let result = row.result_json.filter(|_| is_small);
    let result = result.and_then(|result| shared.result(row.provider_call_id, result));
    let (result_message, result_at, result_json) = match &result {
        None => (None, None, row.result_json),
        Some(SharedResult { message, at, rest }) => (Some(*message), *at, rest.as_deref()),
    };
    let narrow = NarrowCall {
        id: row.id,
        key: row.key,
        provider_call_id: row.provider_call_id,
        message,
        block,
        tool_name,
        status: number(&CALL_STATUSES, row.status)?,
        spawned_session_label: row.spawned_session_label,
        started_at: row.started_at,
        completed_at: row.completed_at,
        error: row.error,
        params_json: row.params_json.filter(|_| block.is_none()),
        result_json,
        result_message,
        result_at,
        replay: row.replay.map(|word| number(&REPLAYS, word)).transpose()?,
        blobs_json: row.blobs_json,
    };
    let hash = row.arguments_hash.and_then(bytes_of);
    let sum = SUM.of_row(row);
    let mut bound = values(&narrow);
    bound.push(match (&hash, row.arguments_hash) {
        (Some(bytes), _) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        (None, text) => text.map_or(ToSqlOutput::Owned(Value::Null), ToSqlOutput::from),
    });
    bound.push(sum.into());
    sql::exec(connection, &ADD, params_from_iter(bound), doing).map(drop)
}

/// The bytes of a hexadecimal text in lower case.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

fn unknown_message(id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::Constraint,
        format!("a tool call names message `{id}`, which its turn does not have"),
    )
}
