//! The index of words against the messages it was made of: SQLite checks that it can be read, not what it says.
//!
//! It must never hold more than a number for each message: a ledger may be large.

use rusqlite::Connection;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::rows::blobs;
use crate::search::search_indexer;
use crate::sqlite::error::{Stored, in_check};
use crate::sqlite::functions::words_of;

/// The longest word that FTS5 keeps, in bytes.
const LONGEST: usize = 32_768;

/// Whether every word of every message that is indexed stands in the index, under that message, and no other word does.
pub(super) fn is_complete(connection: &Connection) -> Stored<bool> {
    let failed = |error| in_check("compare the index of words with the messages", &error);
    let through = search_indexer::indexed_through(connection)?;
    let (mut messages, mut wanted) = (Vec::new(), 0_u64);
    let mut statement = connection.prepare(search_indexer::SAID).map_err(failed)?;
    let mut rows = statement.query((0, through)).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let id: i64 = row.get(0).map_err(failed)?;
        let words = words_of(&blobs::message_text(connection, row, 1)?);
        let mut words: Vec<&[u8]> = words.split_ascii_whitespace().map(cut).collect();
        words.sort_unstable();
        words.dedup();
        wanted = words.into_iter().fold(wanted, |sum, word| sum.wrapping_add(entry(word, id)));
        messages.push(id);
    }
    // A table that lists the index, of this connection alone.
    connection
        .execute_batch(
            "PRAGMA query_only = OFF;
             CREATE VIRTUAL TABLE temp.indexed_words USING fts5vocab(main, message_words, instance);
             PRAGMA query_only = ON;",
        )
        .map_err(failed)?;
    let mut found = 0_u64;
    let mut statement =
        connection.prepare("SELECT term, doc FROM temp.indexed_words").map_err(failed)?;
    let mut rows = statement.query(()).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let id: i64 = row.get(1).map_err(failed)?;
        // A message that is no longer there is looked for nowhere.
        if messages.binary_search(&id).is_ok() {
            let word = row.get_ref(0).map_err(failed)?.as_bytes().unwrap_or_default();
            found = found.wrapping_add(entry(word, id));
        }
    }
    Ok(found == wanted)
}

fn cut(word: &str) -> &[u8] {
    word.as_bytes().get(..LONGEST).unwrap_or(word.as_bytes())
}

fn entry(word: &[u8], message: i64) -> u64 {
    xxh3_64_with_seed(word, message.cast_unsigned())
}
