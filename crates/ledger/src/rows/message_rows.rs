//! The rows of `message_values`: reading those of a turn with their blobs, compared with their checksums.
//!
//! It must never return a message whose checksum differs.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::journal_codec::MessageRecord;
use crate::rows::blobs;
use crate::rows::message_codec;
use crate::rows::message_columns::MessageColumns;
use crate::rows::row_key::{OF_TURN, key, sequence_of};
use crate::sqlite::columns::list_of;
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::{Message, Provenance, Role};

pub(crate) static MESSAGES: LazyLock<String> = LazyLock::new(|| {
    messages_of(&format!("turns t CROSS JOIN message_values m ON m.key {OF_TURN} WHERE t.id = ?1"))
});

/// Selects messages with the columns that [`message`] reads. `from` names the table `m`.
pub(crate) fn messages_of(from: &str) -> String {
    format!("SELECT {} FROM {from} ORDER BY m.key", list_of::<MessageColumns<'_>>("m"))
}

/// The messages of a turn in order, each compared with its checksum.
pub(crate) fn messages(connection: &Connection, turn_id: &str) -> Stored<Vec<Message>> {
    let doing = format_args!("read the messages of turn `{turn_id}`");
    sql::map(connection, &MESSAGES, (turn_id,), doing, |fields| {
        message(connection, &fields.next()?)
    })
}

/// A message from its row, with its blobs, compared with its checksum.
pub(crate) fn message(connection: &Connection, row: &MessageColumns<'_>) -> Stored<Message> {
    let id = row.id;
    let whole;
    let columns = match row.blobs_json {
        None => row.content(),
        Some(names) => {
            let of = format!("message `{id}`");
            let mut read = |hash: &str| blobs::read(connection, hash, &of);
            whole = blobs::put_together(names, row.content().by_name(), &of, &mut read)?;
            row.content().with(&whole)
        }
    };
    let Some(role) = role(row.role) else {
        return Err(damaged(&format!("message `{id}` has no role")));
    };
    if message_codec::checksum(row.role, columns, row.provenance()) != row.checksum {
        return Err(damaged(&format!(
            "message `{id}` does not have the content it was stored with"
        )));
    }
    let [provider, api, model, response_id, stop_reason] =
        row.provenance().map(|value| value.map(ToOwned::to_owned));
    Ok(Message {
        id: id.to_owned(),
        role,
        blocks: message_codec::decode(columns)?,
        sequence: sequence_of(row.key),
        created_at: row.created_at,
        provenance: provider.zip(api).zip(model).map(|((provider, api), model)| Provenance {
            provider,
            api,
            model,
            response_id,
        }),
        provider_stop_reason: stop_reason,
    })
}

/// The row of a message of the journal in the turn with the number `turn`.
pub(crate) fn columns_of<'r>(turn: i64, record: &MessageRecord<'r>) -> Stored<MessageColumns<'r>> {
    Ok(MessageColumns {
        id: record.id,
        key: key(turn, record.sequence)?,
        role: record.role,
        created_at: record.created_at,
        tool_call_id: record.tool_call_id,
        is_error: record.is_error,
        provider: record.provider,
        api: record.api,
        model: record.model,
        response_id: record.response_id,
        stop_reason: record.stop_reason,
        checksum: record.checksum,
        content: record.content,
        thinking: record.thinking,
        blocks_json: record.blocks_json,
        blobs_json: record.blobs_json,
    })
}

/// A message of the journal, with its blobs, compared with its checksum.
pub(crate) fn of_record(connection: &Connection, record: &MessageRecord<'_>) -> Stored<Message> {
    message(connection, &columns_of(0, record)?)
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
