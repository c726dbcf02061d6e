//! The statements of a check: they run once and are not cached; a statement that SQLite rejects counts as damage.
//!
//! It must never be used for a statement that is not tested against the current schema.

use std::fmt::Display;

use rusqlite::{Connection, Params};

use crate::sqlite::error::{Stored, in_check};
use crate::sqlite::fields::Fields;

/// Calls `visit` with each row.
pub(super) fn each(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    doing: impl Display,
    mut visit: impl FnMut(&mut Fields<'_>) -> Stored<()>,
) -> Stored<()> {
    let failed = |error| in_check(&doing, &error);
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let mut rows = statement.query(params).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        visit(&mut Fields::of(row, &doing))?;
    }
    Ok(())
}
