//! What a session's context no longer holds, found by its words: the messages of the turns before the last compaction's
//! first kept one.
//!
//! It must never look beside the thread: another session's turns and a sibling branch's are nobody's ancestors.

use crate::rows::message_rows;
use std::collections::HashMap;

use rusqlite::Connection;

use crate::rows::blobs;
use crate::rows::context_rows;
use crate::rows::iso_time;
use crate::search::{message_search, search_indexer};
use crate::sessions::pointers;
use crate::sqlite::error::{Stored, sqlite};
use crate::sqlite::functions::words_of;
use crate::sqlite::tokenize;
use crate::sqlite::tokenize::{Wanted, search_words};
use model::{Block, Message, RECALL, Recall, Recalled, RecalledMessage, Role};

/// Characters of a message around what was found.
const EXCERPT: usize = 600;
/// Words of a question that are looked for.
const MOST_TERMS: usize = 16;
/// Messages that the index gives for a word, of all sessions: a common word of a large ledger is not followed to its end.
const MOST_HITS: usize = 100_000;
/// Turns whose tool results are read: they are in no index.
const MOST_TURNS: usize = 1_000;
/// Bytes of texts and images in them that are read.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// A message by the place of its turn in the thread, the newest first, and its own in the turn; and how many words it holds.
struct Found {
    turn: usize,
    sequence: u32,
    matched: usize,
}

/// Finds the messages that hold the words of `asked`, or, where none holds all of them, some.
pub(crate) fn recall(connection: &Connection, asked: &Recall) -> Stored<Recalled> {
    let head = pointers::visible_head(connection, &asked.session_label)?.flatten();
    let Some(head) = head.or_else(|| asked.parent_turn_id.clone()) else {
        return Ok(Recalled::default());
    };
    let Some(newest) = context_rows::newest_left_out(connection, &head)? else {
        return Ok(Recalled::default());
    };
    let turns = thread(connection, &newest)?;
    let mut recalled = Recalled { compacted: true, ..Recalled::default() };
    let Some(mut wanted) = tokenize::wanted(&asked.query) else { return Ok(recalled) };
    wanted.truncate(MOST_TERMS);
    let all = wanted.count();
    let places: HashMap<&str, usize> =
        turns.iter().enumerate().map(|(place, id)| (id.as_str(), place)).collect();
    // What no index has: what was said of late, and what tools answered.
    let mut beside = lately(connection, &wanted, &places)?;
    beside.extend(tool_results(connection, &turns, &wanted, &mut recalled.partial)?);
    let mut found: Vec<Found> = indexed(connection, &wanted, &places, &mut recalled.partial)?
        .into_iter()
        .map(|(turn, sequence)| Found { turn, sequence, matched: all })
        .collect();
    if found.is_empty() && beside.iter().all(|it| it.matched < all) {
        recalled.loosely = true;
        let mut counted: HashMap<(usize, u32), usize> = HashMap::new();
        for word in wanted.singly() {
            for place in indexed(connection, &word, &places, &mut recalled.partial)? {
                *counted.entry(place).or_default() += 1;
            }
        }
        found.extend(counted.into_iter().map(|((turn, sequence), matched)| Found {
            turn,
            sequence,
            matched,
        }));
    } else {
        beside.retain(|it| it.matched == all);
    }
    found.append(&mut beside);
    found.sort_unstable_by_key(|it| (usize::MAX - it.matched, it.turn, u32::MAX - it.sequence));
    found.truncate(asked.limit);
    for Found { turn, sequence, .. } in found {
        let Some(turn_id) = turns.get(turn) else { continue };
        let messages = message_rows::messages(connection, turn_id)?;
        let said = messages.iter().find(|message| message.sequence == sequence);
        recalled.messages.extend(said.map(|message| told(message, turn_id, &asked.query)));
    }
    Ok(recalled)
}

/// The turn and those above it, without compactions.
pub(crate) const THREAD: &str = "WITH RECURSIVE thread(id, parent, kind) AS (
       SELECT id, parent_turn_id, turn_type FROM turns WHERE id = ?1
       UNION ALL
       SELECT above.id, above.parent_turn_id, above.turn_type
         FROM thread JOIN turns above ON above.id = thread.parent)
     SELECT id FROM thread WHERE kind = 'normal'";

/// Newest first.
fn thread(connection: &Connection, newest: &str) -> Stored<Vec<String>> {
    connection
        .prepare_cached(THREAD)
        .and_then(|mut statement| {
            statement.query_map((newest,), |row| row.get(0))?.collect::<Result<_, _>>()
        })
        .map_err(|error| sqlite(&format!("read the thread of turn `{newest}`"), &error))
}

/// Newest first, of every session.
pub(crate) const INDEXED: &str = "SELECT m.turn_id, m.sequence
     FROM message_words w CROSS JOIN messages m ON m.rowid = w.rowid
     WHERE w.message_words MATCH ?1 ORDER BY w.rowid DESC";

/// What people, models and hosts said.
fn indexed(
    connection: &Connection,
    wanted: &Wanted,
    places: &HashMap<&str, usize>,
    partial: &mut bool,
) -> Stored<Vec<(usize, u32)>> {
    let failed = |error| sqlite("search the ledger", &error);
    let mut statement = connection.prepare_cached(INDEXED).map_err(failed)?;
    let mut rows = statement.query((wanted.query(),)).map_err(failed)?;
    let mut found = Vec::new();
    let mut seen = 0;
    while let Some(row) = rows.next().map_err(failed)? {
        seen += 1;
        if seen > MOST_HITS {
            *partial = true;
            break;
        }
        let turn = row.get_ref(0).and_then(|id| Ok(places.get(id.as_str()?))).map_err(failed)?;
        if let Some(&turn) = turn {
            found.push((turn, row.get(1).map_err(failed)?));
        }
    }
    Ok(found)
}

/// What is said and not indexed yet.
pub(crate) const LATELY: &str = "SELECT turn_id, sequence, content, blobs_json FROM messages
     WHERE rowid > ?1 AND role IN ('user', 'assistant', 'system')";

fn lately(
    connection: &Connection,
    wanted: &Wanted,
    places: &HashMap<&str, usize>,
) -> Stored<Vec<Found>> {
    let failed = |error| sqlite("search the ledger", &error);
    let indexed = search_indexer::indexed_through(connection)?;
    let mut statement = connection.prepare_cached(LATELY).map_err(failed)?;
    let mut rows = statement.query((indexed,)).map_err(failed)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let turn = row.get_ref(0).and_then(|id| Ok(places.get(id.as_str()?))).map_err(failed)?;
        let Some(&turn) = turn else { continue };
        let words = words_of(&blobs::message_text(connection, row, 2)?);
        let matched = wanted.matched(&words);
        if matched > 0 {
            found.push(Found { turn, sequence: row.get(1).map_err(failed)?, matched });
        }
    }
    Ok(found)
}

/// What tools answered, but for what this one found before.
fn tool_results(
    connection: &Connection,
    turns: &[String],
    wanted: &Wanted,
    partial: &mut bool,
) -> Stored<Vec<Found>> {
    let mut found = Vec::new();
    let mut room = MOST_BYTES;
    for (turn, id) in turns.iter().enumerate() {
        if turn == MOST_TURNS || room == 0 {
            *partial = true;
            break;
        }
        for message in message_rows::messages(connection, id)? {
            room = room.saturating_sub(size(&message.blocks));
            let Some((tool, text)) = result_of(&message) else { continue };
            let matched = if tool == RECALL { 0 } else { wanted.matched(&search_words(&text)) };
            if matched > 0 {
                found.push(Found { turn, sequence: message.sequence, matched });
            }
        }
    }
    Ok(found)
}

fn result_of(message: &Message) -> Option<(&str, String)> {
    match message.blocks.first() {
        Some(Block::ToolResult { tool_name, content, .. }) if message.role == Role::Tool => {
            Some((tool_name, text_of(content)))
        }
        Some(_) | None => None,
    }
}

fn size(blocks: &[Block]) -> usize {
    blocks
        .iter()
        .map(|block| match block {
            Block::Text { text, .. } => text.len(),
            Block::Image { data, .. } | Block::RedactedThinking { data, .. } => data.len(),
            Block::Thinking { thinking, .. } => thinking.len(),
            Block::ToolCall { arguments_json, .. } => arguments_json.len(),
            Block::ToolResult { content, .. } => size(content),
            Block::Opaque { raw_json } => raw_json.len(),
        })
        .sum()
}

fn text_of(blocks: &[Block]) -> String {
    let texts: Vec<&str> = blocks.iter().filter_map(Block::as_text).collect();
    texts.join("\n")
}

fn told(message: &Message, turn_id: &str, query: &str) -> RecalledMessage {
    let (tool_name, text) = match result_of(message) {
        Some((tool, text)) => (Some(tool.to_owned()), text),
        None => (None, text_of(&message.blocks)),
    };
    RecalledMessage {
        role: message.role,
        tool_name,
        turn_id: turn_id.to_owned(),
        said_at: iso_time::format(message.created_at),
        excerpt: message_search::excerpt(&text, query, EXCERPT),
    }
}
