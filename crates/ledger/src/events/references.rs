//! The members of stored events that stand in rows: arguments and results of calls, texts of messages, the outcome of a turn.
//!
//! Of an ended turn they are read from its rows, of an open one from the newest entries of its journal. An event whose row is
//! gone or damaged is delivered without them. It must never read a row that no event refers to.

use std::collections::HashSet;
use std::sync::LazyLock;

use rusqlite::Connection;

use crate::journal_codec::{CallRecord, Entry, EntryKind, MessageRecord, Record, open};
use crate::journal_rows::run_rows::RunRow;
use crate::rows::message_rows::{self, messages_of};
use crate::rows::row_key::OF_TURN;
use crate::rows::tool_call_rows::{self, tool_calls_of};
use crate::rows::turn_rows;
use crate::sqlite::error::{Stored, sqlite};
use crate::sqlite::sql;
use model::{EventReference, EventRows, RunEvent, StorageErrorKind};

pub(crate) static CALL: LazyLock<String> =
    LazyLock::new(|| tool_calls_of("t.id = ?1 AND c.id = ?2"));
pub(crate) static MESSAGE: LazyLock<String> = LazyLock::new(|| {
    messages_of(&format!(
        "turns t CROSS JOIN message_values m ON m.key {OF_TURN} WHERE t.id = ?1 AND m.id = ?2"
    ))
});
pub(crate) const NEWEST_FIRST: &str = "SELECT entry FROM journal WHERE id BETWEEN ?1 AND ?2 AND run = ?1 AND kind = 1 \
     ORDER BY id DESC";

/// Adds the members that the events of a run refer to.
pub(crate) fn resolve(
    connection: &Connection,
    run: &RunRow,
    events: &mut [RunEvent],
) -> Stored<()> {
    let references = EventRows::references(events);
    if references.is_empty() {
        return Ok(());
    }
    let found = match run.has_ended() {
        true => Found::in_rows(connection, run, &references)?,
        false => Found::in_journal(connection, run, &references)?,
    };
    found.0.complete(events, &references);
    Ok(())
}

/// The rows that events refer to.
#[derive(Default)]
struct Found(EventRows);

impl Found {
    fn in_rows(
        connection: &Connection,
        run: &RunRow,
        references: &[(usize, EventReference)],
    ) -> Stored<Self> {
        let mut found = Self::default();
        for (_, reference) in references {
            match reference {
                EventReference::Call { call_id, .. } => {
                    if found.0.calls.contains_key(call_id) {
                        continue;
                    }
                    let doing = format_args!("read tool call `{call_id}`");
                    let call =
                        sql::first(connection, &CALL, (&run.turn_id, call_id), doing, |fields| {
                            sound(tool_call_rows::tool_call(connection, &fields.next()?))
                        })?;
                    found.0.calls.extend(call.flatten().map(|call| (call_id.clone(), call)));
                }
                EventReference::Message(id) => {
                    let doing = format_args!("read message `{id}`");
                    let message =
                        sql::first(connection, &MESSAGE, (&run.turn_id, id), doing, |fields| {
                            sound(message_rows::message(connection, &fields.next()?))
                        })?;
                    found.0.texts.extend(
                        message.flatten().map(|message| (id.clone(), EventRows::text_of(&message))),
                    );
                }
                EventReference::Outcome { .. } => {
                    found.0.turn =
                        sound(turn_rows::turn_alone(connection, &run.turn_id))?.flatten();
                }
            }
        }
        Ok(found)
    }

    /// The newest state of each call and message, from the newest entry back.
    fn in_journal(
        connection: &Connection,
        run: &RunRow,
        references: &[(usize, EventReference)],
    ) -> Stored<Self> {
        let mut found = Self::default();
        let mut wanted: HashSet<&str> = references
            .iter()
            .filter_map(|(_, reference)| match reference {
                EventReference::Call { call_id: id, .. } | EventReference::Message(id) => {
                    Some(id.as_str())
                }
                EventReference::Outcome { .. } => None,
            })
            .collect();
        let failed =
            |error| sqlite(format_args!("read the journal of turn `{}`", run.turn_id), &error);
        let mut statement = connection.prepare_cached(NEWEST_FIRST).map_err(failed)?;
        let mut rows = statement.query((run.n, run.last_entry())).map_err(failed)?;
        while !wanted.is_empty() {
            let Some(row) = rows.next().map_err(failed)? else { break };
            let entry = row.get_ref(0).and_then(|entry| Ok(entry.as_blob()?)).map_err(failed)?;
            let content = open(run.n, EntryKind::CommitPoint, entry).unwrap_or_default();
            let records = Entry::records(&content).unwrap_or_default();
            // The last record of an entry is its newest.
            for record in records.iter().rev() {
                match record {
                    Record::Call(call) if wanted.remove(call.id) => found.call(connection, call)?,
                    Record::Message(message) if wanted.remove(message.id) => {
                        found.message(connection, message)?;
                    }
                    Record::Call(_)
                    | Record::Message(_)
                    | Record::Opening(_)
                    | Record::Progress(_)
                    | Record::Follows(_)
                    | Record::Metadata(_)
                    | Record::Layers(..)
                    | Record::TakenOver => {}
                }
            }
        }
        Ok(found)
    }

    fn call(&mut self, connection: &Connection, record: &CallRecord<'_>) -> Stored<()> {
        let call = sound(tool_call_rows::of_record(connection, record))?;
        self.0.calls.extend(call.map(|call| (record.id.to_owned(), call)));
        Ok(())
    }

    fn message(&mut self, connection: &Connection, record: &MessageRecord<'_>) -> Stored<()> {
        let message = sound(message_rows::of_record(connection, record))?;
        self.0
            .texts
            .extend(message.map(|message| (record.id.to_owned(), EventRows::text_of(&message))));
        Ok(())
    }
}

/// The value, or none where it is damaged: reading the row itself reports that.
fn sound<T>(read: Stored<T>) -> Stored<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == StorageErrorKind::Corrupt => Ok(None),
        Err(error) => Err(error),
    }
}
