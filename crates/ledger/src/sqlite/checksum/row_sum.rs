//! The checksum of a whole row that is written, computed here and not by a function of SQL: the rows of a turn have more than a
//! hundred values.
//!
//! It must never be used for a row with a value that the statement computes, because the checksum would not cover it.

use rusqlite::types::{ToSqlOutput, ValueRef};

use super::sum_functions::{SEPARATOR, seed_of, summand};
use super::tables::columns;
use crate::sqlite::columns::{Columns, list, values};

/// The checksum of rows of one table, or of one view of a table.
pub(crate) struct RowSum {
    /// For each column the seed of its hash; `None` where the checksum does not cover it.
    seeds: Vec<Option<u64>>,
}

impl RowSum {
    /// For rows of the columns of `C`. A column that the checksum covers and `C` does not have must be NULL.
    pub(crate) fn of<C: Columns>(table: &str) -> Self {
        let covered: Vec<&str> = columns(table).split(SEPARATOR).collect();
        let seed = |name: &str| covered.contains(&name).then(|| seed_of(name));
        Self { seeds: list::<C>().split(SEPARATOR).map(seed).collect() }
    }

    /// The checksum of a row of the columns that this was made for.
    pub(crate) fn of_row(&self, row: &impl Columns) -> i64 {
        self.seeds.iter().zip(&values(row)).fold(0_i64, |sum, (seed, value)| {
            let term = seed.map_or(0, |seed| summand(seed, stored(value)));
            sum.wrapping_add(term)
        })
    }
}

/// The value that SQLite stores for a parameter.
fn stored<'v>(value: &'v ToSqlOutput<'_>) -> ValueRef<'v> {
    match value {
        ToSqlOutput::Borrowed(value) => *value,
        ToSqlOutput::Owned(value) => ValueRef::from(value),
        // No column is bound in another way.
        _ => ValueRef::Null,
    }
}
