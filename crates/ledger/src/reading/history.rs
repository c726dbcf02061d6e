//! A session's history as the next call needs it: the context rule of docs/rules/compaction.md#context-rule over the chain of parents.
//!
//! It reads from the head back to the first turn that the last compaction retained, or to the head that the caller knows. It
//! must never repair or project a message: the transcript does.

use rusqlite::Connection;

use crate::rows::context_rows;
use crate::rows::message_rows;
use crate::sessions::pointers;
use crate::sqlite::error::Stored;
use model::{HistoryBase, HistoryTurn, SessionHistory};
use turn::context_walk::{Context, ContextTurn, messages_before};

/// The history of `label` if no message has to be read: the session has no turn, or the caller knows its head.
pub(crate) fn unchanged_history(
    connection: &Connection,
    label: &str,
    known: Option<&str>,
) -> Stored<Option<SessionHistory>> {
    let session = pointers::head(connection, label)?;
    match session.as_ref().and_then(|head| head.as_deref()) {
        Some(head) if known != Some(head) => Ok(None),
        Some(_) | None => history_at(connection, session, None, known).map(Some),
    }
}

/// The history of `label`, or of the turn `at`; see [`model::Journal::history`].
pub(crate) fn session_history(
    connection: &Connection,
    label: &str,
    at: Option<&str>,
    known: Option<&str>,
) -> Stored<SessionHistory> {
    history_at(connection, pointers::head(connection, label)?, at, known)
}

/// The history of a session with this head, or of the turn `at`.
fn history_at(
    connection: &Connection,
    session: Option<Option<String>>,
    at: Option<&str>,
    known: Option<&str>,
) -> Stored<SessionHistory> {
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
    let Context { base, turns, left_out: _ } = context_rows::walk(connection, &head, known)?;
    // No compaction follows a known head: it would have ended the walk.
    let summarised = turns.first().is_some_and(|turn| turn.compaction);
    let turns = turns
        .into_iter()
        .map(|turn| {
            let messages = message_rows::messages(connection, &turn.id)?;
            let follows = turn.follows.as_deref();
            let edited_messages =
                follows.map_or(0, |compaction| messages_before(&messages, compaction));
            let ContextTurn { id, status, edited, .. } = turn;
            Ok(HistoryTurn { id, status, edited, edited_messages, messages })
        })
        .collect::<Stored<Vec<_>>>()?;
    Ok(SessionHistory { exists, head: Some(head), base, summarised, turns })
}
