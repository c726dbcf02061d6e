//! The values of a row that may be large, and the reading of their whole text.
//!
//! It must never touch a value that is not large.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use super::pieces::{Kind, Value, put_together};
use super::store::{LARGE, read};
use crate::rows::message_columns::{ContentRef, LARGE_COLUMNS};
use crate::sqlite::error::{Stored, sqlite};
use crate::sqlite::fields::Fields;
use model::{Block, Message, StorageError, StorageErrorKind};

/// The columns of a tool call that may be large.
pub(crate) const TOOL_CALL: [&str; 2] = ["params_json", "result_json"];

/// The columns of a message that may be large, as they are written. A large text block is a separate value, so that the same
/// file is stored once in every context.
pub(crate) fn of_message<'a>(message: &Message, columns: ContentRef<'a>) -> [Value<'a>; 3] {
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
            Block::Text { text, origin: None, .. } => into.push(text.len()),
            Block::ToolResult { content, .. } => lengths(content, into),
            Block::Text { .. }
            | Block::Image { .. }
            | Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolCall { .. }
            | Block::Opaque { .. } => {}
        }
    }
}

/// The columns of a tool call that may be large. Its arguments are one value, which the block of the call shares; in its
/// result every string is one.
pub(crate) fn of_tool_call<'a>(params: &'a str, result: Option<&'a str>) -> [Value<'a>; 2] {
    let [arguments, answer] = TOOL_CALL;
    [
        Value { column: arguments, text: Some(params), kind: Kind::Texts(Vec::new()) },
        Value { column: answer, text: result, kind: Kind::Json },
    ]
}

/// The arguments and the result of a call as they were written.
pub(crate) fn call_values<'a>(
    connection: &Connection,
    names: &str,
    [params, result]: [Option<&'a str>; 2],
    call_id: &str,
) -> Stored<[Option<Cow<'a, str>>; 2]> {
    let of = format!("tool call `{call_id}`");
    let [arguments, answer] = TOOL_CALL;
    let mut read = |hash: &str| self::read(connection, hash, &of);
    put_together(names, [(arguments, params), (answer, result)], &of, &mut read)
}

/// The text of a message, from a row whose next fields are its `content` and its `blobs_json`. Empty if one of its blobs is
/// damaged: `verify()` reports that, and must not end a search of all messages.
///
/// # Errors
/// Any of storage, other than damage.
pub(crate) fn message_text<'r>(
    connection: &Connection,
    fields: &mut Fields<'r>,
) -> Stored<Cow<'r, str>> {
    let (stored, names): (&str, Option<&str>) = fields.next()?;
    let Some(names) = names else { return Ok(Cow::Borrowed(stored)) };
    let [content, ..] = LARGE_COLUMNS;
    let mut read = |hash: &str| self::read(connection, hash, "a message");
    match put_together(names, [(content, Some(stored))], "a message", &mut read) {
        Ok([text]) => Ok(text.unwrap_or_default()),
        Err(error) if error.kind == StorageErrorKind::Corrupt => Ok(Cow::Borrowed("")),
        Err(error) => Err(error),
    }
}

const MISUSED: &str = "`whole_text(column, value, blobs_json)` takes the name of a column, its value and the \
                       `blobs_json` of the same row";

/// Adds `whole_text(column, value, blobs_json)` to a connection of the host's SQL: the value as it was written. Blobs are
/// read by a separate connection, which `open` opens for the first one: blobs never change, so no snapshot is needed.
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
            // The blobs exist: the caller's `blobs_json` does not fit the column.
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
                        // With another text SQLite would lose the error code.
                        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None)
                    })
                }
            }
        })
        .map_err(|error| sqlite("prepare the ledger's query connection", &error))
}

#[cfg(test)]
mod tests;
