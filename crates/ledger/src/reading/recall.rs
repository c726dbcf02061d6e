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
use base::words::{self, Wanted, search_words};
use model::{Block, Message, RECALL, Recall, Recalled, RecalledMessage, Role};
use portable::iso_time;

/// Characters of a message around the words that were found.
const EXCERPT: usize = 600;
/// Words of a query that are searched for.
const MOST_TERMS: usize = 16;
/// Messages that are read from the index for a word, of all sessions: a common word of a large ledger has many more.
const MOST_HITS: usize = 100_000;
/// Turns whose tool results are read, because no index has them.
const MOST_TURNS: usize = 1_000;
/// Bytes of texts and images in them that are read.
const MOST_BYTES: usize = 8 * 1024 * 1024;

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
        recalled.messages.extend(found.map(|it| recalled_message(it, turn_id, &request.query)));
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

fn recalled_message(message: &Message, turn_id: &str, query: &str) -> RecalledMessage {
    let (tool_name, text) = match result_of(message) {
        Some((tool, text)) => (Some(tool.to_owned()), text),
        None => (None, text_of(&message.blocks)),
    };
    RecalledMessage {
        role: message.role,
        tool_name,
        turn_id: turn_id.to_owned(),
        said_at: iso_time::format(message.created_at),
        excerpt: words::excerpt(&text, query, EXCERPT),
    }
}
