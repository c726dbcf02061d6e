//! A session's history as the next call needs it: the context rule of docs/rules/compaction.md#context-rule over the chain of parents.
//!
//! It reads no more than that: from the head back to the last compaction's first kept turn, or to the head that the
//! caller knows. It must never repair or project a message; that is the transcript's work.

use rusqlite::{Connection, OptionalExtension, Row};

use crate::journal::commit::unknown_turn;
use crate::rows::blobs;
use crate::rows::message_codec::{self, ColumnsRef};
use crate::sessions::pointers;
use crate::sqlite::error::{Stored, damaged, sqlite};
use model::{HistoryBase, HistoryTurn, Message, Provenance, Role, SessionHistory, TurnStatus};
use turn::context_walk::{
    Context, ContextTurn, ContextWalk, Cut, TurnLink, Wanted, messages_before,
};

/// The history of `label`, or of the turn `at`; see [`model::Journal::history`].
pub(crate) fn session_history(
    connection: &Connection,
    label: &str,
    at: Option<&str>,
    known: Option<&str>,
) -> Stored<SessionHistory> {
    let session = pointers::visible_head(connection, label)?;
    let exists = session.is_some();
    let head = match at {
        Some(turn) => Some(turn.to_owned()),
        None => session.flatten(),
    };
    let Some(head) = head else {
        return Ok(SessionHistory {
            exists,
            head: None,
            base: HistoryBase::Root,
            summarised: false,
            turns: Vec::new(),
        });
    };
    let Context { base, turns, left_out: _ } = walk(connection, &head, known)?;
    // After a known head comes no compaction: it would have ended the walk.
    let summarised = turns.first().is_some_and(|turn| turn.compaction);
    let turns = turns
        .into_iter()
        .map(|turn| {
            let messages = messages(connection, &turn.id)?;
            let follows = turn.follows.as_deref();
            let edited_messages =
                follows.map_or(0, |compaction| messages_before(&messages, compaction));
            let ContextTurn { id, status, edited, .. } = turn;
            Ok(HistoryTurn { id, status, edited, edited_messages, messages })
        })
        .collect::<Stored<Vec<_>>>()?;
    Ok(SessionHistory { exists, head: Some(head), base, summarised, turns })
}

/// The newest turn at or above `head` that its context no longer holds; `None` where it holds everything.
pub(crate) fn newest_left_out(connection: &Connection, head: &str) -> Stored<Option<String>> {
    Ok(walk(connection, head, None)?.left_out)
}

/// The turn before the last compaction at or above `head`; `None` where there is no compaction.
pub(crate) fn before_compaction(connection: &Connection, head: &str) -> Stored<Option<String>> {
    let mut walk = ContextWalk::new(head, None);
    while let Some(Wanted::Turn(id)) = walk.wanted() {
        walk.turn(link(connection, id)?);
    }
    Ok(walk.before_compaction().map(ToOwned::to_owned))
}

/// The turns of the context, row by row as the walk wants them.
fn walk(connection: &Connection, head: &str, known: Option<&str>) -> Stored<Context> {
    let mut walk = ContextWalk::new(head, known);
    while let Some(wanted) = walk.wanted() {
        match wanted {
            Wanted::Turn(id) => walk.turn(link(connection, id)?),
            Wanted::Cut(id) => walk.cut(cut(connection, id)?),
        }
    }
    Ok(walk.finish())
}

fn cut(connection: &Connection, compaction: &str) -> Stored<Cut> {
    connection
        .prepare_cached(
            "SELECT first_kept_turn_id, summarized_through_turn_id FROM compactions WHERE turn_id = ?1",
        )
        .and_then(|mut statement| {
            statement.query_row((compaction,), |row| {
                Ok(Cut { first_kept: row.get(0)?, summarized_through: row.get(1)? })
            })
        })
        .map_err(|error| sqlite(&format!("read the compaction `{compaction}`"), &error))
}

fn link(connection: &Connection, id: &str) -> Stored<TurnLink> {
    connection
        .prepare_cached("SELECT parent_turn_id, status, turn_type FROM turns WHERE id = ?1")
        .and_then(|mut statement| {
            statement
                .query_row((id,), |row| {
                    Ok((
                        row.get::<_, Option<String>>(0)?,
                        status(row.get_ref(1)?.as_str()?),
                        row.get_ref(2)?.as_str()? == "compaction",
                    ))
                })
                .optional()
        })
        .map_err(|error| sqlite(&format!("read turn `{id}`"), &error))?
        .ok_or_else(|| unknown_turn(id))
        .and_then(|(parent, status, compaction)| {
            let status = status.ok_or_else(|| damaged(&format!("turn `{id}` has no status")))?;
            if status == TurnStatus::Streaming {
                return Err(unknown_turn(id));
            }
            Ok(TurnLink { id: id.to_owned(), parent, status, compaction })
        })
}

fn status(name: &str) -> Option<TurnStatus> {
    match name {
        // A turn that is only announced counts as one that runs, and to every reader it is not there yet.
        "pending" | "streaming" => Some(TurnStatus::Streaming),
        "completed" => Some(TurnStatus::Completed),
        "aborted" => Some(TurnStatus::Aborted),
        "failed" => Some(TurnStatus::Failed),
        _ => None,
    }
}

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
