//! The rows of `messages`: reading those of a turn, whole and compared with their checksums.
//!
//! It must never give out a message whose checksum differs.

use rusqlite::{Connection, Row};

use crate::rows::blobs;
use crate::rows::message_codec;
use crate::rows::message_columns::ColumnsRef;
use crate::sqlite::error::{Stored, damaged, sqlite};
use model::{Message, Provenance, Role};

/// The messages of a turn in order, each compared with its checksum.
pub(crate) fn messages(connection: &Connection, turn_id: &str) -> Stored<Vec<Message>> {
    let failed = |error| sqlite(&format!("read the messages of turn `{turn_id}`"), &error);
    let mut statement = connection.prepare_cached(MESSAGES).map_err(failed)?;
    let mut rows = statement.query((turn_id,)).map_err(failed)?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        messages.push(message(connection, row).map_err(failed)??);
    }
    Ok(messages)
}

/// In the order [`message`] reads.
pub(crate) const MESSAGES: &str =
    "SELECT id, role, sequence, created_at, tool_call_id, is_error, provider, api, model, response_id, stop_reason,
       checksum, content, thinking, blocks_json, blobs_json
     FROM messages WHERE turn_id = ?1 ORDER BY sequence";

/// A row of [`MESSAGES`], with its blobs, compared with its checksum.
pub(crate) fn message(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<Stored<Message>> {
    let id: String = row.get(0)?;
    let role_name = row.get_ref(1)?.as_str()?;
    let (sequence, created_at) = (row.get(2)?, row.get(3)?);
    let text = |index: usize| Ok::<_, rusqlite::Error>(row.get_ref(index)?.as_str_or_null()?);
    let provenance = [text(6)?, text(7)?, text(8)?, text(9)?, text(10)?];
    let columns = ColumnsRef {
        content: row.get_ref(12)?.as_str()?,
        thinking: text(13)?,
        blocks_json: text(14)?,
        tool_call_id: text(4)?,
        is_error: row.get(5)?,
    };
    let whole;
    let columns = match text(15)? {
        None => columns,
        Some(names) => {
            let of = format!("message `{id}`");
            let mut read = |hash: &str| blobs::read(connection, hash, &of);
            whole = match blobs::put_together(names, columns.by_name(), &of, &mut read) {
                Ok(whole) => whole,
                Err(error) => return Ok(Err(error)),
            };
            columns.with(&whole)
        }
    };
    let Some(role) = role(role_name) else {
        return Ok(Err(damaged(&format!("message `{id}` has no role"))));
    };
    if message_codec::checksum(role_name, columns, provenance) != row.get::<_, i64>(11)? {
        return Ok(Err(damaged(&format!(
            "message `{id}` does not have the content it was stored with"
        ))));
    }
    let [provider, api, model, response_id, stop_reason] =
        provenance.map(|value| value.map(ToOwned::to_owned));
    Ok(message_codec::decode(columns).map(|blocks| Message {
        id,
        role,
        blocks,
        sequence,
        created_at,
        provenance: provider.zip(api).zip(model).map(|((provider, api), model)| Provenance {
            provider,
            api,
            model,
            response_id,
        }),
        provider_stop_reason: stop_reason,
    }))
}

fn role(name: &str) -> Option<Role> {
    match name {
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        "system" => Some(Role::System),
        "tool" => Some(Role::Tool),
        _ => None,
    }
}
