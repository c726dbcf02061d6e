//! The two SQL functions that migrations call. They exist only on the connection that migrates.
//!
//! A trigger, view or index must never use them, because another SQLite does not have them.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use crate::sqlite::error::{Stored, sqlite};
use base::words::search_words;
use model::SessionKey;

/// The limit of a message's indexed text in bytes.
pub(crate) const SEARCHED_BYTES: usize = 256 << 10;

/// Adds `search_words(text)` and `agent_of(label, persona)`.
pub(crate) fn add(connection: &Connection) -> Stored<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection
        .create_scalar_function("search_words", 1, flags, |context| {
            Ok(words_of(context.get_raw(0).as_str()?))
        })
        .and_then(|()| {
            connection.create_scalar_function("agent_of", 2, flags, |context| {
                Ok(agent_of(context.get_raw(0).as_str()?, context.get_raw(1).as_str()?))
            })
        })
        .map_err(|error| sqlite("prepare the ledger's migration", &error))
}

/// The words of the indexed part of a message.
pub(crate) fn words_of(text: &str) -> String {
    let most = text.len().min(SEARCHED_BYTES);
    // A character has at most four bytes, so the search is short.
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    search_words(text.get(..end).unwrap_or_default())
}

/// The agent of a session that existed before sessions had agents: the one that its label names, else its persona.
pub(crate) fn agent_of(label: &str, persona: &str) -> String {
    SessionKey::parse(label).agent_id.unwrap_or_else(|| persona.to_owned())
}
