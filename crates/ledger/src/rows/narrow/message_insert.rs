//! Writes a row of `message_rows`: narrow, with the checksum of the values that the view `message_values` shows.
//!
//! It must never write a value that the view does not give back.

use std::fmt::Display;
use std::sync::LazyLock;

use rusqlite::{Connection, params_from_iter};

use crate::rows::message_columns::MessageColumns;
use crate::rows::narrow::shared_values::SharedValues;
use crate::rows::narrow::strings;
use crate::rows::narrow::words::{MESSAGE_ROLES, number};
use crate::sqlite::checksum::RowSum;
use crate::sqlite::columns::{columns, list, values};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;

/// The columns of `message_rows` that the ledger writes, without the checksum of the row.
pub(crate) struct NarrowMessage<'r> {
    id: &'r str,
    key: i64,
    role: i64,
    created_at: i64,
    tool_call_id: Option<&'r str>,
    is_error: Option<bool>,
    provider: Option<i64>,
    api: Option<i64>,
    model: Option<i64>,
    response_id: Option<&'r str>,
    stop_reason: Option<i64>,
    checksum: i64,
    content: &'r str,
    thinking: Option<&'r str>,
    blocks_json: Option<&'r str>,
    result_of: Option<i64>,
    blobs_json: Option<&'r str>,
}

columns!(for<'r> NarrowMessage<'r> {
    id,
    key,
    role,
    created_at,
    tool_call_id,
    is_error,
    provider,
    api,
    model,
    response_id,
    stop_reason,
    checksum,
    content,
    thinking,
    blocks_json,
    result_of,
    blobs_json,
});

static SUM: LazyLock<RowSum> = LazyLock::new(|| RowSum::of::<MessageColumns<'_>>("message_values"));
static ADD: LazyLock<String> = LazyLock::new(|| {
    let names = list::<NarrowMessage<'_>>() + ", row_checksum";
    let parameters = vec!["?"; names.split(", ").count()].join(", ");
    format!("INSERT INTO message_rows ({names}) VALUES ({parameters})")
});

/// Writes a message, whose values the later rows of its turn may share.
///
/// # Errors
/// `storage_constraint` for a position that is taken.
pub(crate) fn insert(
    connection: &Connection,
    row: &MessageColumns<'_>,
    shared: &mut SharedValues,
    doing: impl Display,
) -> Stored<()> {
    let tool = result_of(row);
    let texts = [row.provider, row.api, row.model, row.stop_reason, tool.as_deref()];
    let [provider, api, model, stop_reason, result_of] = strings::ids(connection, texts)?;
    let narrow = NarrowMessage {
        id: row.id,
        key: row.key,
        role: number(&MESSAGE_ROLES, row.role)?,
        created_at: row.created_at,
        tool_call_id: row.tool_call_id,
        is_error: row.is_error,
        provider,
        api,
        model,
        response_id: row.response_id,
        stop_reason,
        checksum: row.checksum,
        content: row.content,
        thinking: row.thinking,
        blocks_json: row.blocks_json.filter(|_| result_of.is_none()),
        result_of,
        blobs_json: row.blobs_json,
    };
    shared.add(row);
    let sum = SUM.of_row(row);
    let mut bound = values(&narrow);
    bound.push(sum.into());
    sql::exec(connection, &ADD, params_from_iter(bound), doing).map(drop)
}

/// The frame of one result of one text without the name of its tool, which is between the parts; the length of the text is
/// between the last two.
const FRAME: [&str; 3] =
    [r#"[{"type":"tool_result","toolName":"#, r#","content":[{"type":"text","textBytes":"#, "}]}]"];

/// The tool of a message whose blocks are one result of one text. The view puts the frame together again.
fn result_of(row: &MessageColumns<'_>) -> Option<String> {
    if row.blobs_json.is_some() {
        return None;
    }
    let [before, between, after] = FRAME;
    let rest = row.blocks_json?.strip_prefix(before)?;
    let name = rest.strip_suffix(after)?.strip_suffix(&row.content.len().to_string())?;
    let name = name.strip_suffix(between)?;
    let tool: String = serde_json::from_str(name).ok()?;
    let is_same = serde_json::to_string(&tool).is_ok_and(|json| json == name);
    // SQLite's text functions end at a NUL.
    (is_same && !tool.contains('\0')).then_some(tool)
}
