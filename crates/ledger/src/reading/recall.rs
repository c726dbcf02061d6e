//! A search by words in the part of a thread that its context no longer contains: the messages of the turns before the first
//! retained turn of the last compaction.
//!
//! It must never search outside the thread: turns of another session or of a sibling branch are not its ancestors.

use std::collections::HashMap;
use std::ops::ControlFlow;

use rusqlite::Connection;

use crate::rows::blobs;
use crate::rows::context_rows;
use crate::rows::message_rows;
use crate::search::search_indexer;
use crate::sessions::pointers;
use crate::sqlite::error::Stored;
use crate::sqlite::functions::words_of;
use crate::sqlite::sql;
use base::words::{self, Wanted};
use model::{Recall, Recalled};
use portable::recalled::{MOST_BYTES, MOST_TERMS, MOST_TURNS, result_words, shown, size};

/// Messages that are read from the index for a word, of all sessions: a common word of a large ledger has many more.
const MOST_HITS: usize = 100_000;

/// A message that was found.
struct Found {
    /// The position of its turn in the thread, the newest first.
    turn: usize,
    sequence: u32,
    /// How many of the words it contains.
    matched: usize,
}

/// Finds the messages that contain all words of the query or, if there are none, those that contain some.
pub(crate) fn recall(connection: &Connection, request: &Recall) -> Stored<Recalled> {
    let head = pointers::visible_head(connection, &request.session_label)?.flatten();
    let Some(head) = head.or_else(|| request.parent_turn_id.clone()) else {
        return Ok(Recalled::default());
    };
    let Some(newest) = context_rows::newest_left_out(connection, &head)? else {
        return Ok(Recalled::default());
    };
    let turns = thread(connection, &newest)?;
    let mut recalled = Recalled { compacted: true, ..Recalled::default() };
    let Some(mut wanted) = words::wanted(&request.query) else { return Ok(recalled) };
    wanted.truncate(MOST_TERMS);
    let all = wanted.count();
    let positions: HashMap<&str, usize> =
        turns.iter().enumerate().map(|(position, id)| (id.as_str(), position)).collect();
    let mut unindexed = unindexed(connection, &wanted, &positions)?;
    unindexed.extend(tool_results(connection, &turns, &wanted, &mut recalled.partial)?);
    let mut found: Vec<Found> = indexed(connection, &wanted, &positions, &mut recalled.partial)?
        .into_iter()
        .map(|(turn, sequence)| Found { turn, sequence, matched: all })
        .collect();
    if found.is_empty() && unindexed.iter().all(|it| it.matched < all) {
        recalled.loosely = true;
        let mut counted: HashMap<(usize, u32), usize> = HashMap::new();
        for word in wanted.singly() {
            for message in indexed(connection, &word, &positions, &mut recalled.partial)? {
                *counted.entry(message).or_default() += 1;
            }
        }
        found.extend(counted.into_iter().map(|((turn, sequence), matched)| Found {
            turn,
            sequence,
            matched,
        }));
    } else {
        unindexed.retain(|it| it.matched == all);
    }
    found.append(&mut unindexed);
    found.sort_unstable_by_key(|it| (usize::MAX - it.matched, it.turn, u32::MAX - it.sequence));
    found.truncate(request.limit);
    for Found { turn, sequence, .. } in found {
        let Some(turn_id) = turns.get(turn) else { continue };
        let messages = message_rows::messages(connection, turn_id)?;
        let found = messages.iter().find(|message| message.sequence == sequence);
        recalled.messages.extend(found.map(|it| shown(it, turn_id, &request.query)));
    }
    Ok(recalled)
}

/// The turn and its ancestors, without compactions.
pub(crate) const THREAD: &str = "WITH RECURSIVE thread(id, parent, kind) AS (
       SELECT id, parent_turn_id, turn_type FROM turns WHERE id = ?1
       UNION ALL
       SELECT above.id, above.parent_turn_id, above.turn_type
         FROM thread JOIN turns above ON above.id = thread.parent)
     SELECT id FROM thread WHERE kind = 'normal'";

/// Newest first.
fn thread(connection: &Connection, newest: &str) -> Stored<Vec<String>> {
    sql::all(connection, THREAD, (newest,), format_args!("read the thread of turn `{newest}`"))
}

/// Newest first, of every session.
pub(crate) const INDEXED: &str = "SELECT t.id, w.rowid & 1048575
     FROM message_words w CROSS JOIN turns t ON t.n = w.rowid >> 20
     WHERE w.message_words MATCH ?1 ORDER BY w.rowid DESC";

/// The messages of the thread that the index has for the words: position of the turn, sequence.
fn indexed(
    connection: &Connection,
    wanted: &Wanted,
    positions: &HashMap<&str, usize>,
    partial: &mut bool,
) -> Stored<Vec<(usize, u32)>> {
    let mut found = Vec::new();
    let mut seen = 0;
    sql::each(connection, INDEXED, (wanted.query(),), "search the ledger", |fields| {
        seen += 1;
        if seen > MOST_HITS {
            *partial = true;
            return Ok(ControlFlow::Break(()));
        }
        if let Some(&turn) = positions.get(fields.next::<&str>()?) {
            found.push((turn, fields.next()?));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// The messages that are not indexed yet.
pub(crate) const UNINDEXED: &str = "SELECT t.id, m.key & 1048575, m.content, m.blobs_json
     FROM message_values m CROSS JOIN turns t ON t.n = m.key >> 20 WHERE m.key > ?1 AND m.role IN ('user', 'assistant', 'system')";

fn unindexed(
    connection: &Connection,
    wanted: &Wanted,
    positions: &HashMap<&str, usize>,
) -> Stored<Vec<Found>> {
    let indexed = search_indexer::indexed_through(connection)?;
    let mut found = Vec::new();
    sql::each(connection, UNINDEXED, (indexed,), "search the ledger", |fields| {
        if let Some(&turn) = positions.get(fields.next::<&str>()?) {
            let sequence = fields.next()?;
            let words = words_of(&blobs::message_text(connection, fields)?);
            let matched = wanted.matched(&words);
            if matched > 0 {
                found.push(Found { turn, sequence, matched });
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// The tool results of the thread, which no index has, without those of the recall tool.
fn tool_results(
    connection: &Connection,
    turns: &[String],
    wanted: &Wanted,
    partial: &mut bool,
) -> Stored<Vec<Found>> {
    let mut found = Vec::new();
    let mut remaining = MOST_BYTES;
    for (turn, id) in turns.iter().enumerate() {
        if turn == MOST_TURNS || remaining == 0 {
            *partial = true;
            break;
        }
        for message in message_rows::messages(connection, id)? {
            remaining = remaining.saturating_sub(size(&message.blocks));
            let matched = result_words(&message).map_or(0, |words| wanted.matched(&words));
            if matched > 0 {
                found.push(Found { turn, sequence: message.sequence, matched });
            }
        }
    }
    Ok(found)
}
