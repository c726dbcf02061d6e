//! One function for each way to run a statement: it compiles the statement once per connection, binds, runs, reads the rows,
//! and names the purpose in the error.
//!
//! It must never put a value into the text of a statement, nor a bound value into an error.

use std::fmt::Display;
use std::ops::ControlFlow;

use rusqlite::{Connection, Params, params_from_iter};

use crate::sqlite::columns::{Columns, values};
use crate::sqlite::error::{Stored, sqlite};
use crate::sqlite::fields::{Fields, FromFields};

/// Runs a statement that returns no rows. Returns the number of changed rows.
pub(crate) fn exec(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    doing: impl Display,
) -> Stored<usize> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.execute(params))
        .map_err(|error| sqlite(&doing, &error))
}

/// Writes a row by a statement that has a parameter for each of its columns, in their order.
pub(crate) fn insert(
    connection: &Connection,
    sql: &str,
    row: &impl Columns,
    doing: impl Display,
) -> Stored<()> {
    exec(connection, sql, params_from_iter(values(row)), doing).map(drop)
}

/// The first row; an error without rows.
pub(crate) fn one<T: for<'r> FromFields<'r>>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    doing: impl Display,
) -> Stored<T> {
    match first(connection, sql, params, &doing, |fields| fields.next())? {
        Some(value) => Ok(value),
        None => Err(sqlite(&doing, &rusqlite::Error::QueryReturnedNoRows)),
    }
}

/// The first row, if there is one.
pub(crate) fn optional<T: for<'r> FromFields<'r>>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    doing: impl Display,
) -> Stored<Option<T>> {
    first(connection, sql, params, doing, |fields| fields.next())
}

/// Every row.
pub(crate) fn all<T: for<'r> FromFields<'r>>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    doing: impl Display,
) -> Stored<Vec<T>> {
    map(connection, sql, params, doing, |fields| fields.next())
}

/// Whether the statement returns a row.
pub(crate) fn exists(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    doing: impl Display,
) -> Stored<bool> {
    Ok(first(connection, sql, params, doing, |_| Ok(()))?.is_some())
}

/// The result of `read` for the first row, if there is one. Unlike the result of [`optional`], a row may be read without a
/// copy.
pub(crate) fn first<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    doing: impl Display,
    mut read: impl FnMut(&mut Fields<'_>) -> Stored<T>,
) -> Stored<Option<T>> {
    let mut found = None;
    each(connection, sql, params, doing, |fields| {
        found = Some(read(fields)?);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// The results of `read` for all rows.
pub(crate) fn map<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    doing: impl Display,
    mut read: impl FnMut(&mut Fields<'_>) -> Stored<T>,
) -> Stored<Vec<T>> {
    let mut rows = Vec::new();
    each(connection, sql, params, doing, |fields| {
        rows.push(read(fields)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}

/// Calls `visit` with each row until it breaks.
pub(crate) fn each(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    doing: impl Display,
    mut visit: impl FnMut(&mut Fields<'_>) -> Stored<ControlFlow<()>>,
) -> Stored<()> {
    let failed = |error| sqlite(&doing, &error);
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query(params).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        if visit(&mut Fields::of(row, &doing))?.is_break() {
            break;
        }
    }
    Ok(())
}
