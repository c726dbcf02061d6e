//! The fields of a row, read from the left to the right, so that no reader counts them.
//!
//! [`FromFields`] is what a type is read from: a value from one field, a tuple from one for each of its parts, a row type from
//! those of its columns. It must never skip a field.

use std::fmt::Display;

use rusqlite::Row;
use rusqlite::types::{ToSqlOutput, Value};

use crate::sqlite::error::{Stored, sqlite};

/// The fields of a row that were not read yet.
pub(crate) struct Fields<'r> {
    row: &'r Row<'r>,
    doing: &'r dyn Display,
    next: usize,
}

impl<'r> Fields<'r> {
    /// All fields of a row; an error in one of them names what the statement was `doing`.
    pub(crate) fn of(row: &'r Row<'r>, doing: &'r dyn Display) -> Self {
        Self { row, doing, next: 0 }
    }

    /// All fields of the same row once more.
    pub(crate) fn again(&self) -> Self {
        Self { next: 0, ..*self }
    }

    /// The next value, of one field or of several.
    pub(crate) fn next<T: FromFields<'r>>(&mut self) -> Stored<T> {
        T::from_fields(self)
    }
}

/// What is made of the next fields of a row.
pub(crate) trait FromFields<'r>: Sized {
    /// Reads as many fields as it is made of.
    fn from_fields(fields: &mut Fields<'r>) -> Stored<Self>;
}

/// A value that one column holds.
pub(crate) trait Column<'r>: Sized {
    /// The value of the field at this position.
    fn load(row: &'r Row<'r>, at: usize) -> rusqlite::Result<Self>;
    /// The value as a statement binds it.
    fn bind(&self) -> ToSqlOutput<'_>;
}

impl<'r, T: Column<'r>> FromFields<'r> for T {
    fn from_fields(fields: &mut Fields<'r>) -> Stored<Self> {
        let at = fields.next;
        fields.next += 1;
        T::load(fields.row, at).map_err(|error| sqlite(fields.doing, &error))
    }
}

/// Types that SQLite's interface reads and binds by itself.
macro_rules! plain_columns {
    ($($type:ty),*) => {
        $(impl Column<'_> for $type {
            fn load(row: &Row<'_>, at: usize) -> rusqlite::Result<Self> {
                row.get(at)
            }

            fn bind(&self) -> ToSqlOutput<'_> {
                ToSqlOutput::from(*self)
            }
        })*
    };
}
plain_columns!(bool, u32, i64, f64);

impl Column<'_> for String {
    fn load(row: &Row<'_>, at: usize) -> rusqlite::Result<Self> {
        row.get(at)
    }

    fn bind(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::from(self.as_str())
    }
}

impl<'r> Column<'r> for &'r str {
    fn load(row: &'r Row<'r>, at: usize) -> rusqlite::Result<Self> {
        Ok(row.get_ref(at)?.as_str()?)
    }

    fn bind(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::from(*self)
    }
}

/// The bytes of a blob, or of a text that may not be UTF-8.
impl<'r> Column<'r> for &'r [u8] {
    fn load(row: &'r Row<'r>, at: usize) -> rusqlite::Result<Self> {
        Ok(row.get_ref(at)?.as_bytes()?)
    }

    fn bind(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::from(*self)
    }
}

/// SQLite's integers are signed. A count beyond them is a provider's mistake, and is stored as the largest there is; a negative
/// one was never stored.
impl Column<'_> for u64 {
    fn load(row: &Row<'_>, at: usize) -> rusqlite::Result<Self> {
        let stored: i64 = row.get(at)?;
        Self::try_from(stored).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(at, stored))
    }

    fn bind(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::from(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl<'r, T: Column<'r>> Column<'r> for Option<T> {
    fn load(row: &'r Row<'r>, at: usize) -> rusqlite::Result<Self> {
        match row.get_ref(at)? {
            rusqlite::types::ValueRef::Null => Ok(None),
            _ => T::load(row, at).map(Some),
        }
    }

    fn bind(&self) -> ToSqlOutput<'_> {
        match self {
            Some(value) => value.bind(),
            None => ToSqlOutput::Owned(Value::Null),
        }
    }
}

macro_rules! tuples {
    ($(($($part:ident),*))*) => {
        $(impl<'r, $($part: FromFields<'r>),*> FromFields<'r> for ($($part,)*) {
            fn from_fields(fields: &mut Fields<'r>) -> Stored<Self> {
                Ok(($(fields.next::<$part>()?,)*))
            }
        })*
    };
}
tuples! { (A, B) (A, B, C) (A, B, C, D) }

#[cfg(test)]
mod tests {
    use crate::sqlite::sql;
    use model::StorageErrorKind;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it opens no file")]
    fn a_negative_count_is_damage_and_not_a_very_large_one() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let read = |select| sql::one::<u64>(&connection, select, (), "count");
        assert_eq!(read("SELECT 9223372036854775807").unwrap(), i64::MAX.unsigned_abs());
        assert_eq!(read("SELECT -1").unwrap_err().kind, StorageErrorKind::Corrupt);
    }
}
