//! The search for messages: through the index, and word by word through the messages that are not indexed yet.
//!
//! Tool results and reasoning are not searched. It must never show a turn that still runs.

use std::ops::ControlFlow;

use rusqlite::Connection;

use crate::rows::blobs;
use crate::search::search_indexer;
use crate::sqlite::error::Stored;
use crate::sqlite::fields::Fields;
use crate::sqlite::functions::words_of;
use crate::sqlite::sql;
use base::words::{self, excerpt};
use model::{Page, SearchHit, SearchOptions};

/// Characters of a message around the words that were found.
const EXCERPT: usize = 160;

/// Newest first, from the index.
pub(crate) const FOUND: &str =
    "SELECT m.content, m.blobs_json, w.rowid, m.id, t.id, t.session_label, m.role, m.created_at
     FROM message_words w CROSS JOIN message_values m ON m.key = w.rowid CROSS JOIN turns t ON t.n = m.key >> 20
     WHERE w.message_words MATCH ?1 AND w.rowid < ?2 AND (?3 IS NULL OR t.session_label = ?3)
       AND t.status NOT IN ('pending', 'streaming')
     ORDER BY w.rowid DESC LIMIT ?4";

/// Newest first, the messages that are not indexed yet.
pub(crate) const UNINDEXED: &str =
    "SELECT m.content, m.blobs_json, m.key, m.id, t.id, t.session_label, m.role, m.created_at
     FROM message_values m CROSS JOIN turns t ON t.n = m.key >> 20
     WHERE m.key > ?1 AND m.key < ?2 AND (?3 IS NULL OR t.session_label = ?3)
       AND m.role IN ('user', 'assistant', 'system') AND t.turn_type = 'normal'
       AND t.status NOT IN ('pending', 'streaming')
     ORDER BY m.key DESC";

const SEARCHING: &str = "search the ledger";

/// The messages that contain every word of `text`, newest first. Without words it finds none.
pub(crate) fn search(
    connection: &Connection,
    text: &str,
    options: &SearchOptions,
) -> Stored<Page<SearchHit, i64>> {
    let Some(wanted) = words::wanted(text) else { return Ok(Page::empty()) };
    let before = options.after.unwrap_or(i64::MAX);
    let session = options.session_label.as_deref();
    let mut found = Vec::new();
    let mut left = options.limit.and_one();
    let indexed = search_indexer::indexed_through(connection)?;
    sql::each(connection, UNINDEXED, (indexed, before, session), SEARCHING, |fields| {
        let content = blobs::message_text(connection, fields)?;
        if wanted.are_in(&words_of(&content)) {
            found.push(hit(fields, &content, text)?);
            left -= 1;
        }
        Ok(if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    if left > 0 {
        let values = (wanted.query(), before, session, left);
        found.extend(sql::map(connection, FOUND, values, SEARCHING, |fields| {
            let content = blobs::message_text(connection, fields)?;
            hit(fields, &content, text)
        })?);
    }
    Ok(Page::cut(found, options.limit))
}

/// A found message and its key.
fn hit(fields: &mut Fields<'_>, content: &str, text: &str) -> Stored<(i64, SearchHit)> {
    let key = fields.next()?;
    let hit = SearchHit {
        message_id: fields.next()?,
        turn_id: fields.next()?,
        session_label: fields.next()?,
        role: fields.next()?,
        created_at: fields.next()?,
        excerpt: excerpt(content, text, EXCERPT),
    };
    Ok((key, hit))
}
