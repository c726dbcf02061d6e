//! A row together with the result of its checksum. It must never handle a damaged row: its reader does.

use super::sql::is_whole;
use crate::sqlite::columns::{Columns, list_of};
use crate::sqlite::error::Stored;
use crate::sqlite::fields::{Fields, FromFields};

/// A row, and whether it is unaltered.
pub(crate) struct Checked<R> {
    pub(crate) row: R,
    pub(crate) is_whole: bool,
}

impl<'r, R: FromFields<'r>> FromFields<'r> for Checked<R> {
    fn from_fields(fields: &mut Fields<'r>) -> Stored<Self> {
        Ok(Self { row: fields.next()?, is_whole: fields.next()? })
    }
}

/// The columns of `table` under its `alias` in the statement, in the order in which [`Checked`] reads them.
pub(crate) fn checked<C: Columns>(table: &str, alias: &str) -> String {
    format!("{}, {}", list_of::<C>(alias), is_whole(table, alias))
}
