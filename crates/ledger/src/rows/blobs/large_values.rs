//! The values of a row that may be large, and how a text of them is read whole.
//!
//! It must never touch a value that is not large.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, Row};

use super::pieces::{Kind, Value, put_together};
use super::store::{LARGE, read};
use crate::rows::message_columns::{ColumnsRef, LARGE_COLUMNS};
use crate::sqlite::error::{Stored, sqlite};
use model::{Block, Message, StorageError, StorageErrorKind};

/// Those of a tool call's.
pub(crate) const TOOL_CALL: [&str; 2] = ["params_json", "result_json"];

/// The large columns of a message as they go into its row. A text block that is large is a value of its own, so that the
/// same file is kept once, whatever stands around it.
pub(crate) fn of_message<'a>(message: &Message, columns: ColumnsRef<'a>) -> [Value<'a>; 3] {
    let mut texts = Vec::new();
    if columns.content.len() > LARGE {
        lengths(&message.blocks, &mut texts);
    }
    let [content, thinking, blocks] = LARGE_COLUMNS;
    [
        Value { column: content, text: Some(columns.content), kind: Kind::Texts(texts) },
        Value { column: thinking, text: columns.thinking, kind: Kind::Texts(Vec::new()) },
        Value { column: blocks, text: columns.blocks_json, kind: Kind::Json },
    ]
}

/// The lengths of the texts that `content` is made of, in its order.
fn lengths(blocks: &[Block], into: &mut Vec<usize>) {
    for block in blocks {
        match block {
            Block::Text { text, .. } => into.push(text.len()),
            Block::ToolResult { content, .. } => lengths(content, into),
            Block::Image { .. }
            | Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolCall { .. }
            | Block::Opaque { .. } => {}
        }
    }
}

/// Those of a tool call. Its arguments are one value, which the block that asked for it holds as well; in its result every
/// string is one.
pub(crate) fn of_tool_call<'a>(params: &'a str, result: Option<&'a str>) -> [Value<'a>; 2] {
    let [arguments, answer] = TOOL_CALL;
    [
        Value { column: arguments, text: Some(params), kind: Kind::Texts(Vec::new()) },
        Value { column: answer, text: result, kind: Kind::Json },
    ]
}

/// The arguments and the result of a call as they were written.
pub(crate) fn call_values(
    connection: &Connection,
    names: &str,
    [params, result]: [Option<String>; 2],
    call_id: &str,
) -> Stored<[Option<String>; 2]> {
    let of = format!("tool call `{call_id}`");
    let [arguments, answer] = TOOL_CALL;
    let columns = [(arguments, params.as_deref()), (answer, result.as_deref())];
    let mut read = |hash: &str| self::read(connection, hash, &of);
    let whole = put_together(names, columns, &of, &mut read)?;
    Ok(whole.map(|value| value.map(Cow::into_owned)))
}

/// The text of a message, of a row that has its `content` at `at` and its `blobs_json` after it. Empty where a blob of it is
/// damaged: `verify()` reports that, and a search of all messages must not end there.
///
/// # Errors
/// Any of storage, other than damage.
pub(crate) fn message_text<'a>(
    connection: &Connection,
    row: &'a Row<'_>,
    at: usize,
) -> Stored<Cow<'a, str>> {
    let failed = |error| sqlite("read what was said", &error);
    let stored = row.get_ref(at).and_then(|stored| Ok(stored.as_str()?)).map_err(failed)?;
    let names = row.get_ref(at + 1).and_then(|it| Ok(it.as_str_or_null()?)).map_err(failed)?;
    let Some(names) = names else { return Ok(Cow::Borrowed(stored)) };
    let [content, ..] = LARGE_COLUMNS;
    let mut read = |hash: &str| self::read(connection, hash, "a message");
    match put_together(names, [(content, Some(stored))], "a message", &mut read) {
        Ok([text]) => Ok(text.unwrap_or_default()),
        Err(error) if error.kind == StorageErrorKind::Corrupt => Ok(Cow::Borrowed("")),
        Err(error) => Err(error),
    }
}

const MISUSED: &str = "`whole_text(column, value, blobs_json)` takes the name of a column, what stands in it and the \
                       `blobs_json` of the same row";

/// Adds `whole_text(column, value, blobs_json)` to a connection of the host's SQL: the value as it was written. Blobs are read
/// by a connection of its own, which `open` opens at the first one: they never change, so any moment is the right one.
pub(crate) fn add_whole_text(
    connection: &Connection,
    open: impl Fn() -> Stored<Connection> + Send + 'static,
) -> Stored<()> {
    let reader = Mutex::new(None::<Connection>);
    let whole = move |column: &str, value: &str, names: &str| {
        let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match reader.take() {
            Some(connection) => connection,
            None => open()?,
        };
        let of = format!("the column `{column}`");
        let mut lost = false;
        let mut read = |hash: &str| {
            let text = self::read(&connection, hash, &of);
            lost |= text.is_err();
            text
        };
        let whole = put_together(names, [(column, Some(value))], &of, &mut read);
        *reader = Some(connection);
        match whole {
            Ok([value]) => Ok(value.map(Cow::into_owned)),
            Err(error) if lost => Err(error),
            // The blobs are there: what the caller says of them is wrong.
            Err(_) => Err(StorageError::new(StorageErrorKind::InvalidQuery, MISUSED)),
        }
    };
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
    connection
        .create_scalar_function("whole_text", 3, flags, move |context| {
            let text = |at| Ok::<_, rusqlite::Error>(context.get_raw(at).as_str_or_null()?);
            match (text(1)?, text(2)?) {
                (None, _) => Ok(None),
                (Some(value), None) => Ok(Some(value.to_owned())),
                (Some(value), Some(names)) => {
                    let column = context.get_raw(0).as_str()?;
                    whole(column, value, names).map_err(|error| {
                        let code = match error.kind {
                            StorageErrorKind::InvalidQuery => {
                                return rusqlite::Error::UserFunctionError(error.message.into());
                            }
                            StorageErrorKind::Corrupt => rusqlite::ffi::SQLITE_CORRUPT,
                            _ => rusqlite::ffi::SQLITE_IOERR,
                        };
                        // With a text of ours SQLite would forget the code.
                        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None)
                    })
                }
            }
        })
        .map_err(|error| sqlite("prepare the ledger's query connection", &error))
}

#[cfg(test)]
mod tests;
