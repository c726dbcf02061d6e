//! The search over what was said: its index asked, and what the index does not have yet looked through.
//!
//! What tools answered and what was thought is not in it. It must never show a turn that still runs.

use rusqlite::{Connection, Row};

use crate::rows::blobs;
use crate::search::search_indexer;
use crate::sqlite::error::{Stored, sqlite};
use crate::sqlite::functions::words_of;
use crate::sqlite::tokenize;
use model::{Page, SearchHit, SearchOptions};

/// Characters of a message around what was found.
const EXCERPT: usize = 160;

/// Newest first, from the index.
pub(crate) const FOUND: &str =
    "SELECT w.rowid, m.id, m.turn_id, t.session_label, m.role, m.created_at, m.content,
       m.blobs_json
     FROM message_words w CROSS JOIN messages m ON m.rowid = w.rowid CROSS JOIN turns t ON t.id = m.turn_id
     WHERE w.message_words MATCH ?1 AND w.rowid < ?2 AND (?3 IS NULL OR t.session_label = ?3)
       AND t.status NOT IN ('pending', 'streaming')
     ORDER BY w.rowid DESC LIMIT ?4";

/// Newest first, what the index does not have yet.
pub(crate) const LATELY: &str =
    "SELECT m.rowid, m.id, m.turn_id, t.session_label, m.role, m.created_at, m.content,
       m.blobs_json
     FROM messages m CROSS JOIN turns t ON t.id = m.turn_id
     WHERE m.rowid > ?1 AND m.rowid < ?2 AND (?3 IS NULL OR t.session_label = ?3)
       AND m.role IN ('user', 'assistant', 'system') AND t.turn_type = 'normal'
       AND t.status NOT IN ('pending', 'streaming')
     ORDER BY m.rowid DESC";

/// The messages that hold every word of `text`, newest first. No words, no messages.
pub(crate) fn search(
    connection: &Connection,
    text: &str,
    options: &SearchOptions,
) -> Stored<Page<SearchHit, i64>> {
    let Some(wanted) = tokenize::wanted(text) else { return Ok(Page::empty()) };
    let failed = |error| sqlite("search the ledger", &error);
    let before = options.after.unwrap_or(i64::MAX);
    let session = options.session_label.as_deref();
    let mut found = Vec::new();
    let mut left = options.limit.and_one();
    let indexed = search_indexer::indexed_through(connection)?;
    let mut statement = connection.prepare_cached(LATELY).map_err(failed)?;
    let mut rows = statement.query((indexed, before, session)).map_err(failed)?;
    while left > 0
        && let Some(row) = rows.next().map_err(failed)?
    {
        let said = blobs::message_text(connection, row, 6)?;
        if wanted.are_in(&words_of(&said)) {
            found.push(hit(row, &said, text).map_err(failed)?);
            left -= 1;
        }
    }
    if left > 0 {
        let mut statement = connection.prepare_cached(FOUND).map_err(failed)?;
        let mut rows = statement.query((wanted.query(), before, session, left)).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let said = blobs::message_text(connection, row, 6)?;
            found.push(hit(row, &said, text).map_err(failed)?);
        }
    }
    Ok(Page::cut(found, options.limit))
}

fn hit(row: &Row<'_>, said: &str, text: &str) -> rusqlite::Result<(i64, SearchHit)> {
    Ok((
        row.get(0)?,
        SearchHit {
            message_id: row.get(1)?,
            turn_id: row.get(2)?,
            session_label: row.get(3)?,
            role: row.get(4)?,
            created_at: row.get(5)?,
            excerpt: excerpt(said, text, EXCERPT),
        },
    ))
}

/// At most `most` characters of `content`, around the first word of `text` in it.
pub(crate) fn excerpt(content: &str, text: &str, most: usize) -> String {
    let at = tokenize::position(content, text);
    let (before, from) = content.split_at_checked(at).unwrap_or(("", content));
    let lead = before.char_indices().rev().nth(most / 4 - 1).map_or(0, |(start, _)| start);
    let start = content.get(lead..).unwrap_or(from);
    let end = start.char_indices().nth(most).map_or(start.len(), |(end, _)| end);
    let mut told = String::with_capacity(end + 6);
    if lead > 0 {
        told.push('…');
    }
    told.push_str(start.get(..end).unwrap_or(start));
    if end < start.len() {
        told.push('…');
    }
    told
}

#[cfg(test)]
mod tests {
    use super::{EXCERPT, excerpt};

    #[test]
    fn an_excerpt_is_cut_on_characters_and_says_where_it_was_cut() {
        assert_eq!(excerpt("short Needle", "needle", EXCERPT), "short Needle");
        let long = format!("{} needle {}", "ü".repeat(500), "é".repeat(500));
        let told = excerpt(&long, "needle", EXCERPT);
        assert_eq!(told.chars().count(), 162);
        assert!(told.starts_with("…ü") && told.ends_with("é…") && told.contains(" needle "));
    }
}
