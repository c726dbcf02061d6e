//! The text of statements that write a row together with its checksum.
//!
//! A table that has a checksum must be written through these alone.

use std::fmt::Write as _;

use super::sum_functions::SEPARATOR;
use super::tables::columns;
use crate::sqlite::columns::{Columns, list};

/// Each of `names` with the parameter of its position, as [`insert`] and [`set`] take them.
pub(crate) fn numbered(names: &str) -> Vec<(&str, String)> {
    names.split(SEPARATOR).zip(1..).map(|(name, at)| (name, format!("?{at}"))).collect()
}

/// `INSERT INTO table … VALUES …` with the row's checksum. A column that the checksum covers and `row` does not name must
/// be NULL.
pub(crate) fn insert<V: AsRef<str>>(table: &str, row: &[(&str, V)]) -> String {
    format!("INSERT INTO {table} {}", row_of(table, row))
}

/// [`insert`] of the columns of `C`, with a parameter for each, in their order.
pub(crate) fn insert_all<C: Columns>(table: &str) -> String {
    insert(table, &numbered(&list::<C>()))
}

/// As [`insert`], and replaces the row that has the same key.
fn replace<V: AsRef<str>>(table: &str, row: &[(&str, V)]) -> String {
    format!("INSERT OR REPLACE INTO {table} {}", row_of(table, row))
}

/// [`replace`] of the columns of `C`, with a parameter for each, in their order.
pub(crate) fn replace_all<C: Columns>(table: &str) -> String {
    replace(table, &numbered(&list::<C>()))
}

fn row_of<V: AsRef<str>>(table: &str, row: &[(&str, V)]) -> String {
    let (names, values) = split(row.iter());
    let covered: Vec<&str> = columns(table).split(SEPARATOR).collect();
    let (summed, terms) = split(row.iter().filter(|(name, _)| covered.contains(name)));
    format!("({names}, row_checksum) VALUES ({values}, checksum_of('{summed}', {terms}))")
}

/// The assignments after `SET`, with that of the checksum.
pub(crate) fn set<V: AsRef<str>>(changed: &[(&str, V)]) -> String {
    let (names, values) = split(changed.iter());
    let mut sql = String::new();
    for (name, value) in changed {
        // Into a string: it cannot fail.
        let _ = write!(sql, "{name} = {}, ", value.as_ref());
    }
    sql + &format!("row_checksum = checksum_after(row_checksum, '{names}', {names}, {values})")
}

/// An expression: whether the row of `table`, which the statement calls `alias`, is as it was written.
pub(crate) fn is_whole(table: &str, alias: &str) -> String {
    let names = columns(table);
    let of = |name: &str| format!("{alias}.{name}");
    let values: Vec<String> = names.split(SEPARATOR).map(of).collect();
    format!("{alias}.row_checksum IS checksum_of('{names}', {})", values.join(SEPARATOR))
}

fn split<'a, V: AsRef<str> + 'a>(row: impl Iterator<Item = &'a (&'a str, V)>) -> (String, String) {
    let (names, values): (Vec<&str>, Vec<&str>) =
        row.map(|(name, value)| (*name, value.as_ref())).unzip();
    (names.join(SEPARATOR), values.join(SEPARATOR))
}
