//! Writes whole rows together with their checksum, which is computed here and not by a function of SQL: the rows of a turn
//! have more than a hundred values.
//!
//! It must never write a row with a value that the statement computes, because the checksum would not cover it.

use std::fmt::Display;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params_from_iter};

use super::sql::numbered;
use super::sum_functions::{SEPARATOR, seed_of, summand};
use super::tables::columns;
use crate::sqlite::columns::{Columns, list, values};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;

/// The checksum of rows of one table.
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
        self.of_values(&values(row))
    }

    fn of_values(&self, values: &[ToSqlOutput<'_>]) -> i64 {
        self.seeds.iter().zip(values).fold(0_i64, |sum, (seed, value)| {
            let term = seed.map_or(0, |seed| summand(seed, stored(value)));
            sum.wrapping_add(term)
        })
    }
}

/// The statement that writes rows of one table.
pub(crate) struct InsertRow {
    sql: String,
    sum: RowSum,
}

impl InsertRow {
    /// For rows of the columns of `C`. A column that the checksum covers and `C` does not have must be NULL.
    pub(crate) fn of<C: Columns>(table: &str) -> Self {
        let names = list::<C>();
        let with_sum = format!("{names}, row_checksum");
        let parameters: Vec<String> = numbered(&with_sum).into_iter().map(|it| it.1).collect();
        let sql = format!("INSERT INTO {table} ({with_sum}) VALUES ({})", parameters.join(", "));
        Self { sql, sum: RowSum::of::<C>(table) }
    }

    /// Writes a row of the columns that the statement was made for.
    pub(crate) fn run(
        &self,
        connection: &Connection,
        row: &impl Columns,
        doing: impl Display,
    ) -> Stored<()> {
        let mut bound = values(row);
        let sum = self.sum.of_values(&bound);
        bound.push(ToSqlOutput::from(sum));
        sql::exec(connection, &self.sql, params_from_iter(bound), doing).map(drop)
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
