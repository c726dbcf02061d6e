//! The index of words, compared with the messages: SQLite checks that it can be read, not whether its words are right, nor
//! whether a search for a word arrives at it.
//!
//! It must never hold more than a number for each message: a ledger may be large.

use rusqlite::{Connection, Statement};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::each::each;
use crate::rows::blobs;
use crate::search::search_indexer;
use crate::sqlite::error::{Stored, in_check};
use crate::sqlite::functions::words_of;

/// The longest word that FTS5 stores, in bytes.
const LONGEST: usize = 32_768;

/// The messages with a word, as a search reads them: the word is looked up in the index's list of pages, which reading the
/// whole index does not use.
const FOUND: &str = "SELECT rowid FROM message_words WHERE message_words MATCH '\"' || CAST(?1 AS TEXT) || '\"' ORDER BY rowid DESC";

/// Whether every word of every message that is indexed is in the index, under that message, and no other word is; and
/// whether a search for each word finds the messages that the index has under it.
pub(super) fn is_complete(connection: &Connection) -> Stored<bool> {
    let doing = "compare the index of words with the messages";
    let through = search_indexer::indexed_through(connection)?;
    let (mut messages, mut wanted) = (Vec::new(), 0_u64);
    each(connection, search_indexer::TO_INDEX, (0, through), doing, |fields| {
        let id: i64 = fields.next()?;
        let words = words_of(&blobs::message_text(connection, fields)?);
        let mut words: Vec<&[u8]> = words.split_ascii_whitespace().map(cut).collect();
        words.sort_unstable();
        words.dedup();
        wanted = words.into_iter().fold(wanted, |sum, word| sum.wrapping_add(entry(word, id)));
        messages.push(id);
        Ok(())
    })?;
    // A table that lists the index, visible to this connection only.
    connection
        .execute_batch(
            "PRAGMA query_only = OFF;
             CREATE VIRTUAL TABLE temp.indexed_words USING fts5vocab(main, message_words, instance);
             PRAGMA query_only = ON;",
        )
        .map_err(|error| in_check(doing, &error))?;
    let mut found = 0_u64;
    let mut look_up = connection.prepare(FOUND).map_err(|error| in_check(doing, &error))?;
    // The index lists one word after the other.
    let (mut word, mut listed, mut is_found) = (Vec::new(), 0_u64, true);
    each(connection, "SELECT doc, term FROM temp.indexed_words", (), doing, |fields| {
        let (id, term): (i64, &[u8]) = fields.next()?;
        if term != word {
            is_found = is_found && looked_up(&mut look_up, &word)? == listed;
            (word, listed) = (term.to_owned(), 0);
        }
        let entry = entry(term, id);
        listed = listed.wrapping_add(entry);
        // A message that does not exist cannot be found.
        if messages.binary_search(&id).is_ok() {
            found = found.wrapping_add(entry);
        }
        Ok(())
    })?;
    Ok(found == wanted && is_found && looked_up(&mut look_up, &word)? == listed)
}

/// The sum of the entries of a word that a search finds.
fn looked_up(look_up: &mut Statement<'_>, word: &[u8]) -> Stored<u64> {
    if word.is_empty() {
        return Ok(0);
    }
    let failed = |error| in_check("look up a word in the index", &error);
    let mut rows = look_up.query((word,)).map_err(failed)?;
    let mut found = 0_u64;
    while let Some(row) = rows.next().map_err(failed)? {
        found = found.wrapping_add(entry(word, row.get(0).map_err(failed)?));
    }
    Ok(found)
}

fn cut(word: &str) -> &[u8] {
    word.as_bytes().get(..LONGEST).unwrap_or(word.as_bytes())
}

fn entry(word: &[u8], message: i64) -> u64 {
    xxh3_64_with_seed(word, message.cast_unsigned())
}
