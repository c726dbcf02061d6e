//! The checksum of a row: it detects bit rot in a page, which SQLite does not.
//!
//! It is the sum of one hash for each column, so an update changes only the summands of its columns, and earlier damage of
//! the row stays visible. Two SQL functions compute it, on the engine's connections only: a trigger, view or index must
//! never use them, because another SQLite does not have them.

use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::sqlite::error::{Stored, sqlite};

/// Adds `checksum_of(names, value…)`, and `checksum_after(before, names, old…, new…)` for an update of those columns.
/// `names` lists the columns, separated by `, `.
pub(crate) fn add(connection: &Connection) -> Stored<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection
        .create_scalar_function("checksum_of", -1, flags, |context| {
            let names = text(context, 0)?;
            expect(context, 1 + names.split(SEPARATOR).count())?;
            Ok(sum(context, names, 1))
        })
        .and_then(|()| {
            connection.create_scalar_function("checksum_after", -1, flags, |context| {
                let names = text(context, 1)?;
                let count = names.split(SEPARATOR).count();
                expect(context, 2 + 2 * count)?;
                let before = match context.get_raw(0) {
                    ValueRef::Integer(before) => before,
                    // A row without a checksum is damaged, and stays damaged.
                    _ => return Ok(None),
                };
                let (old, new) = (sum(context, names, 2), sum(context, names, 2 + count));
                Ok(Some(before.wrapping_sub(old).wrapping_add(new)))
            })
        })
        .map_err(|error| sqlite("prepare the ledger's checksums", &error))
}

pub(super) const SEPARATOR: &str = ", ";

fn text<'a>(context: &'a Context<'_>, at: usize) -> rusqlite::Result<&'a str> {
    if at < context.len() { Ok(context.get_raw(at).as_str()?) } else { Err(misused()) }
}

fn expect(context: &Context<'_>, arguments: usize) -> rusqlite::Result<()> {
    if context.len() == arguments { Ok(()) } else { Err(misused()) }
}

fn misused() -> rusqlite::Error {
    rusqlite::Error::UserFunctionError("a checksum needs one value for each column".into())
}

/// The sum of the columns `names`, whose values are the arguments from `first` on.
fn sum(context: &Context<'_>, names: &str, first: usize) -> i64 {
    names
        .split(SEPARATOR)
        .zip(first..)
        .fold(0, |sum, (name, at)| sum.wrapping_add(column(name, context.get_raw(at))))
}

/// The checksum of a row whose columns `names` have these values.
pub(crate) fn of_values<'a>(names: &str, values: impl Iterator<Item = ValueRef<'a>>) -> i64 {
    let columns = names.split(SEPARATOR).zip(values);
    columns.fold(0, |sum, (name, value)| sum.wrapping_add(column(name, value)))
}

fn column(name: &str, value: ValueRef<'_>) -> i64 {
    summand(seed_of(name), value)
}

/// The seed of the hash of a column.
pub(super) fn seed_of(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// The summand of a column with that seed. It is 0 for NULL, so that a new column of a later schema changes no checksum.
pub(super) fn summand(seed: u64, value: ValueRef<'_>) -> i64 {
    let hash = match value {
        ValueRef::Null => return 0,
        ValueRef::Integer(value) => xxh3_64_with_seed(&value.to_le_bytes(), seed ^ 1),
        ValueRef::Real(value) => match whole(value) {
            // A statement may write an integer to a column of reals.
            Some(value) => xxh3_64_with_seed(&value.to_le_bytes(), seed ^ 1),
            None => xxh3_64_with_seed(&value.to_bits().to_le_bytes(), seed ^ 2),
        },
        ValueRef::Text(value) => xxh3_64_with_seed(value, seed ^ 3),
        ValueRef::Blob(value) => xxh3_64_with_seed(value, seed ^ 4),
    };
    hash.cast_signed()
}

/// The integer that is equal to a real, if both types represent it exactly.
fn whole(value: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
    (value.fract() == 0.0 && value.abs() <= EXACT).then_some(value as i64)
}

#[cfg(test)]
mod tests;
