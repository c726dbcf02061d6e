//! The index of words, compared with the messages: SQLite checks that it can be read, not whether its words are right.
//!
//! It must never hold more than a number for each message: a ledger may be large.

use rusqlite::Connection;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::each::each;
use crate::rows::blobs;
use crate::search::search_indexer;
use crate::sqlite::error::{Stored, in_check};
use crate::sqlite::functions::words_of;

/// The longest word that FTS5 stores, in bytes.
const LONGEST: usize = 32_768;

/// Whether every word of every message that is indexed is in the index, under that message, and no other word is.
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
    each(connection, "SELECT doc, term FROM temp.indexed_words", (), doing, |fields| {
        let id: i64 = fields.next()?;
        // A message that does not exist cannot be found.
        if messages.binary_search(&id).is_ok() {
            found = found.wrapping_add(entry(fields.next()?, id));
        }
        Ok(())
    })?;
    Ok(found == wanted)
}

fn cut(word: &str) -> &[u8] {
    word.as_bytes().get(..LONGEST).unwrap_or(word.as_bytes())
}

fn entry(word: &[u8], message: i64) -> u64 {
    xxh3_64_with_seed(word, message.cast_unsigned())
}
