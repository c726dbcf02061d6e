//! The search over what was said: filling its index when a turn ends, and asking it.
//!
//! What tools answered and what was thought is not in it. It must never show a turn that still runs.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::error::{Stored, sqlite};
use super::functions::words_of;
use super::page::{Limit, Page};
use super::words;

/// Characters of a message around what was found.
const EXCERPT: usize = 160;

/// What of the search is asked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SearchOptions {
    /// Only messages of turns that were run in this session.
    #[serde(default)]
    pub session_label: Option<String>,
    /// The `next` of the page before.
    #[serde(default)]
    pub after: Option<i64>,
    /// Hits at most: 1 to 1,000. Default 100.
    #[serde(default)]
    #[cfg_attr(test, ts(as = "Option<u32>"))]
    pub limit: Limit,
}

/// A message that holds every word that was searched for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    /// The message.
    pub message_id: String,
    /// Its turn.
    pub turn_id: String,
    /// The session the turn was run in.
    pub session_label: String,
    /// Who said it.
    #[cfg_attr(test, ts(type = "'user' | 'assistant' | 'system'"))]
    pub role: String,
    /// Unix milliseconds.
    pub created_at: i64,
    /// What stands around the first word that was found: at most 160 characters, `…` where something was left out.
    pub excerpt: String,
}

/// Makes the messages of a turn that has ended findable.
pub(super) fn index_turn(connection: &Connection, turn_id: &str) -> Stored<()> {
    let failed = |error| sqlite(&format!("make turn `{turn_id}` findable"), &error);
    let mut said = connection.prepare_cached(SAID).map_err(failed)?;
    let mut rows = said.query((turn_id,)).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let words = row.get_ref(1).and_then(|text| Ok(words_of(text.as_str()?))).map_err(failed)?;
        if words.is_empty() {
            continue;
        }
        let sequence: i64 = row.get(0).map_err(failed)?;
        connection
            .prepare_cached(
                "INSERT INTO searchable (turn_id, sequence) VALUES (?1, ?2) RETURNING id",
            )
            .and_then(|mut statement| statement.query_row((turn_id, sequence), |row| row.get(0)))
            .and_then(|id: i64| {
                connection
                    .prepare_cached("INSERT INTO message_words (rowid, words) VALUES (?1, ?2)")?
                    .execute((id, words))
            })
            .map_err(failed)?;
    }
    Ok(())
}

pub(super) const SAID: &str =
    "SELECT sequence, content FROM messages WHERE turn_id = ?1 AND role IN ('user', 'assistant', 'system')
     ORDER BY sequence";

/// Newest first.
pub(super) const FOUND: &str =
    "SELECT w.rowid, m.id, m.turn_id, t.session_label, m.role, m.created_at, m.content
     FROM message_words w CROSS JOIN searchable s ON s.id = w.rowid
       CROSS JOIN turns t ON t.id = s.turn_id
       CROSS JOIN messages m ON m.turn_id = s.turn_id AND m.sequence = s.sequence
     WHERE w.message_words MATCH ?1 AND w.rowid < ?2 AND (?3 IS NULL OR t.session_label = ?3)
     ORDER BY w.rowid DESC LIMIT ?4";

/// The messages that hold every word of `text`, newest first. No words, no messages.
pub(super) fn search(
    connection: &Connection,
    text: &str,
    options: &SearchOptions,
) -> Stored<Page<SearchHit, i64>> {
    let Some(query) = words::query(text) else { return Ok(Page::empty()) };
    let failed = |error| sqlite("search the ledger", &error);
    let mut statement = connection.prepare_cached(FOUND).map_err(failed)?;
    let before = options.after.unwrap_or(i64::MAX);
    let wanted = (query, before, options.session_label.as_deref(), options.limit.and_one());
    let mut rows = statement.query(wanted).map_err(failed)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let hit = || -> rusqlite::Result<(i64, SearchHit)> {
            Ok((
                row.get(0)?,
                SearchHit {
                    message_id: row.get(1)?,
                    turn_id: row.get(2)?,
                    session_label: row.get(3)?,
                    role: row.get(4)?,
                    created_at: row.get(5)?,
                    excerpt: excerpt(row.get_ref(6)?.as_str()?, text, EXCERPT),
                },
            ))
        };
        found.push(hit().map_err(failed)?);
    }
    Ok(Page::cut(found, options.limit))
}

/// At most `most` characters of `content`, around the first word of `text` in it.
pub(super) fn excerpt(content: &str, text: &str, most: usize) -> String {
    let at = words::position(content, text);
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
