//! The host's metadata of turns and sessions: writing it, reading it beside another row, and the conditions of a filter.
//!
//! A key is a part of a statement's text, because an index of it is found by the same text: it must never be one that
//! [`MetadataKey`] refuses.

use std::sync::LazyLock;

use rusqlite::Connection;
use rusqlite::types::Value;

use crate::sqlite::checksum::{insert, numbered, replace_all};
use crate::sqlite::columns::columns;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{Metadata, MetadataFilter, MetadataKey};

/// A column with the metadata of the turn `t`.
pub(crate) const OF_TURN: &str = "(SELECT m.metadata FROM turn_metadata m WHERE m.turn = t.n)";
/// A column with the metadata of the session of a row of `sessions`.
pub(crate) const OF_SESSION: &str =
    "(SELECT m.metadata FROM session_metadata m WHERE m.session_label = label)";

/// A row of `session_metadata`.
struct SessionMetadata<'r> {
    session_label: &'r str,
    metadata: &'r str,
}

columns!(for<'r> SessionMetadata<'r> { session_label, metadata });

static ADD_TO_TURN: LazyLock<String> =
    LazyLock::new(|| insert("turn_metadata", &numbered("turn, metadata")));
static SET_ON_SESSION: LazyLock<String> =
    LazyLock::new(|| replace_all::<SessionMetadata<'_>>("session_metadata"));

/// Writes the metadata of the turn with the number `turn`.
pub(crate) fn add_to_turn(connection: &Connection, turn: i64, metadata: &str) -> Stored<()> {
    sql::exec(connection, &ADD_TO_TURN, (turn, metadata), "write the metadata of a turn").map(drop)
}

/// Replaces the metadata of a session; without any, it is removed.
pub(crate) fn set_on_session(
    connection: &Connection,
    label: &str,
    metadata: Option<&Metadata>,
) -> Stored<()> {
    let doing = format_args!("write the metadata of session `{label}`");
    match metadata {
        Some(metadata) => {
            let row = SessionMetadata { session_label: label, metadata: metadata.as_str() };
            sql::insert(connection, &SET_ON_SESSION, &row, doing)
        }
        None => {
            let delete = "DELETE FROM session_metadata WHERE session_label = ?1";
            sql::exec(connection, delete, (label,), doing).map(drop)
        }
    }
}

/// The metadata in a column of a row.
pub(crate) fn of_column(text: Option<String>) -> Option<Metadata> {
    text.map(Metadata::stored)
}

/// The value of a key, as JSON text: the expression of its index.
pub(crate) fn value_of(key: &MetadataKey) -> String {
    format!("metadata -> '$.\"{}\"'", key.as_str())
}

/// The conditions of a filter on a row of one of the tables, whose values have the parameters from `?first` on; and the values.
pub(crate) fn conditions(filter: &MetadataFilter, first: usize) -> (String, Vec<Value>) {
    let parts = filter.conditions();
    let texts: Vec<String> = parts
        .iter()
        .zip(first..)
        .map(|((key, _), at)| format!("({}) = ?{at}", value_of(key)))
        .collect();
    let values = parts.iter().map(|(_, value)| Value::Text(value.clone())).collect();
    (texts.join(" AND "), values)
}

/// Creates the indexes of a key, or removes them. False if that was done already.
pub(crate) fn index(connection: &Connection, key: &MetadataKey, indexed: bool) -> Stored<bool> {
    let doing = format_args!("index the metadata by `{}`", key.as_str());
    let mut changed = false;
    for (table, last) in [("turn_metadata", "turn"), ("session_metadata", "session_label")] {
        let name = format!("{table}_by_{}", key.as_str());
        let select = "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?1";
        if sql::exists(connection, select, (&name,), doing)? == indexed {
            continue;
        }
        let statement = if indexed {
            format!("CREATE INDEX \"{name}\" ON {table} (({}), {last})", value_of(key))
        } else {
            format!("DROP INDEX \"{name}\"")
        };
        sql::exec(connection, &statement, (), doing)?;
        changed = true;
    }
    Ok(changed)
}
