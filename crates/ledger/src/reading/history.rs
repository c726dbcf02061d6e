//! A session's history as the next call needs it: the context rule of docs/rules/compaction.md#context-rule over the chain of parents.
//!
//! It reads no more than that: from the head back to the last compaction's first kept turn, or to the head that the
//! caller knows. It must never repair or project a message; that is the transcript's work.

use rusqlite::{Connection, OptionalExtension};

use crate::rows::message_rows;
use crate::rows::turn_parents::unknown_turn;
use crate::sessions::pointers;
use crate::sqlite::error::{Stored, damaged, sqlite};
use model::{HistoryBase, HistoryTurn, Message, Role, SessionHistory, TurnStatus};

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
    let (base, links) = walk(connection, &head, known)?;
    // After a known head comes no compaction: it would have ended the walk.
    let summarised = links.first().is_some_and(|link| link.compaction);
    let turns = links
        .into_iter()
        .map(|link| {
            let messages = message_rows::messages(connection, &link.id)?;
            let follows = link.follows.as_deref();
            Ok(HistoryTurn {
                edited_messages: follows.map_or(0, |compaction| said_before(&messages, compaction)),
                messages,
                edited: link.edited,
                id: link.id,
                status: link.status,
            })
        })
        .collect::<Stored<Vec<_>>>()?;
    Ok(SessionHistory { exists, head: Some(head), base, summarised, turns })
}

/// A turn on the way up.
struct Link {
    id: String,
    parent: Option<String>,
    status: TurnStatus,
    compaction: bool,
    /// Kept by a compaction that came after it.
    edited: bool,
    /// The compaction that it follows.
    follows: Option<String>,
}

/// So many of a turn's messages were said before `compaction`, which its own run made while it went on. What is said
/// has an id of the engine's clock, as a compaction has; an answer goes with what came before the next one.
fn said_before(messages: &[Message], compaction: &str) -> usize {
    let ours =
        |id: &str| id.len() == compaction.len() && id.bytes().all(|it| it.is_ascii_alphanumeric());
    let before = |message: &Message| {
        message.role == Role::Assistant && ours(&message.id) && message.id.as_str() < compaction
    };
    let Some(last) = messages.iter().rposition(before) else { return 0 };
    let rest = messages.iter().skip(last + 1);
    last + 1 + rest.take_while(|message| message.role != Role::Assistant).count()
}

/// The turns of the context, oldest first, with the last compaction before what it keeps.
fn walk(
    connection: &Connection,
    head: &str,
    known: Option<&str>,
) -> Stored<(HistoryBase, Vec<Link>)> {
    let mut newest_first: Vec<Link> = Vec::new();
    let mut next = Some(head.to_owned());
    while let Some(id) = next {
        if known == Some(id.as_str()) {
            newest_first.reverse();
            return Ok((HistoryBase::Known, newest_first));
        }
        let link = link(connection, &id)?;
        if link.compaction {
            if let Some(child) = newest_first.last_mut() {
                child.follows = Some(link.id.clone());
            }
            let (mut turns, _) = kept_turns(connection, &link)?;
            turns.push(link);
            // The summary stands first, then what it kept, then what came after it.
            turns.rotate_right(1);
            newest_first.reverse();
            turns.append(&mut newest_first);
            return Ok((HistoryBase::Root, turns));
        }
        next = link.parent.clone();
        newest_first.push(link);
    }
    newest_first.reverse();
    Ok((HistoryBase::Root, newest_first))
}

/// The newest turn at or above `head` that its context no longer holds; `None` where it holds everything.
pub(crate) fn newest_left_out(connection: &Connection, head: &str) -> Stored<Option<String>> {
    let mut next = Some(head.to_owned());
    while let Some(id) = next {
        let link = link(connection, &id)?;
        if link.compaction {
            return Ok(kept_turns(connection, &link)?.1);
        }
        next = link.parent;
    }
    Ok(None)
}

/// The turns from the first kept one up to the compaction, oldest first, without older compactions; and the turn before.
fn kept_turns(connection: &Connection, compaction: &Link) -> Stored<(Vec<Link>, Option<String>)> {
    let (first_kept, summarized) = connection
        .prepare_cached(
            "SELECT first_kept_turn_id, summarized_through_turn_id FROM compactions WHERE turn_id = ?1",
        )
        .and_then(|mut statement| {
            statement.query_row((&compaction.id,), |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })
        })
        .map_err(|error| sqlite(&format!("read the compaction `{}`", compaction.id), &error))?;
    let mut kept = Vec::new();
    let mut next = compaction.parent.clone();
    // Where nothing before the compaction was kept, the first kept turn comes after it.
    while let Some(id) = next.take_if(|id| *id != summarized) {
        let link = link(connection, &id)?;
        next.clone_from(&link.parent);
        if !link.compaction {
            kept.push(Link { edited: true, ..link });
        }
        if id == first_kept {
            break;
        }
    }
    kept.reverse();
    Ok((kept, next))
}

fn link(connection: &Connection, id: &str) -> Stored<Link> {
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
            Ok(Link { id: id.to_owned(), parent, status, compaction, edited: false, follows: None })
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
