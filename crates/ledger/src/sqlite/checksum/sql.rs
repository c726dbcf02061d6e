//! Statements that keep a row's checksum right, built of what each column gets.
//!
//! A table that has a checksum must be written through these alone.

use std::fmt::Write as _;

use rusqlite::{Connection, Params};

use super::sum_functions::SEPARATOR;
use super::tables::columns;
use crate::sqlite::error::{Stored, sqlite};

/// Each of `names` with the parameter of its place, as [`insert`] and [`set`] take them.
pub(crate) fn numbered(names: &str) -> Vec<(&str, String)> {
    names.split(SEPARATOR).zip(1..).map(|(name, at)| (name, format!("?{at}"))).collect()
}

/// `INSERT INTO table … VALUES …` with the row's checksum. What is not named must be NULL, or not covered.
pub(crate) fn insert<V: AsRef<str>>(table: &str, row: &[(&str, V)]) -> String {
    format!("INSERT INTO {table} {}", row_of(row))
}

/// As [`insert`], in the place of the row that is there.
pub(crate) fn replace<V: AsRef<str>>(table: &str, row: &[(&str, V)]) -> String {
    format!("INSERT OR REPLACE INTO {table} {}", row_of(row))
}

fn row_of<V: AsRef<str>>(row: &[(&str, V)]) -> String {
    let (names, values) = split(row);
    format!("({names}, row_checksum) VALUES ({values}, checksum_of('{names}', {values}))")
}

/// The assignments after `SET`, with that of the checksum.
pub(crate) fn set<V: AsRef<str>>(changed: &[(&str, V)]) -> String {
    let (names, values) = split(changed);
    let mut sql = String::new();
    for (name, value) in changed {
        // Into a string: it cannot fail.
        let _ = write!(sql, "{name} = {}, ", value.as_ref());
    }
    sql + &format!("row_checksum = checksum_after(row_checksum, '{names}', {names}, {values})")
}

/// Whether the row of `table` is as it was written, in SQL; its columns stand under `alias`.
pub(crate) fn is_whole(table: &str, alias: &str) -> String {
    let names = columns(table);
    let of = |name: &str| format!("{alias}.{name}");
    let values: Vec<String> = names.split(SEPARATOR).map(of).collect();
    format!("{alias}.row_checksum IS checksum_of('{names}', {})", values.join(SEPARATOR))
}

/// Computes the checksum of rows that were written by a statement which did not.
pub(crate) fn seal(
    connection: &Connection,
    table: &str,
    rows: &str,
    parameters: impl Params,
) -> Stored<()> {
    let names = columns(table);
    connection
        .prepare_cached(&format!(
            "UPDATE {table} SET row_checksum = checksum_of('{names}', {names}) WHERE {rows}"
        ))
        .and_then(|mut statement| statement.execute(parameters))
        .map(drop)
        .map_err(|error| sqlite(&format!("write the checksums of `{table}`"), &error))
}

fn split<V: AsRef<str>>(row: &[(&str, V)]) -> (String, String) {
    let names: Vec<&str> = row.iter().map(|(name, _)| *name).collect();
    let values: Vec<&str> = row.iter().map(|(_, value)| value.as_ref()).collect();
    (names.join(SEPARATOR), values.join(SEPARATOR))
}
