//! The columns of a table as the fields of a struct: one list, from which the SELECT, the INSERT and the reader are
//! generated.
//!
//! The order of the list is that of the statement; code that fills or reads the struct does not depend on it. It must never
//! name a table: a statement does.

use rusqlite::types::{ToSqlOutput, Value};

/// A struct whose fields are columns, in one order. [`columns!`] implements it.
pub(crate) trait Columns {
    /// Adds the names of the columns.
    fn names(into: &mut Vec<&'static str>);
    /// Adds the values of the columns in the form in which a statement binds them.
    fn values<'v>(&'v self, into: &mut Vec<ToSqlOutput<'v>>);
}

/// A group of columns that may all be NULL.
impl<C: Columns> Columns for Option<C> {
    fn names(into: &mut Vec<&'static str>) {
        C::names(into);
    }

    fn values<'v>(&'v self, into: &mut Vec<ToSqlOutput<'v>>) {
        match self {
            Some(group) => group.values(into),
            None => {
                let mut names = Vec::new();
                C::names(&mut names);
                into.extend(names.iter().map(|_| ToSqlOutput::Owned(Value::Null)));
            }
        }
    }
}

/// `id, status, …`
pub(crate) fn list<C: Columns>() -> String {
    let mut names = Vec::new();
    C::names(&mut names);
    names.join(", ")
}

/// `t.id, t.status, …`: the columns of the table with that `alias` in the statement.
pub(crate) fn list_of<C: Columns>(alias: &str) -> String {
    let mut names = Vec::new();
    C::names(&mut names);
    let qualified: Vec<String> = names.iter().map(|name| format!("{alias}.{name}")).collect();
    qualified.join(", ")
}

/// The values of a row, in the order of its columns.
pub(crate) fn values(row: &impl Columns) -> Vec<ToSqlOutput<'_>> {
    let mut values = Vec::new();
    row.values(&mut values);
    values
}

/// Implements [`Columns`] and [`FromFields`](crate::sqlite::fields::FromFields) for a struct whose fields have the names of
/// the columns: `columns!(PersonaRow { id, main_session_label, created_at })`. A field that is itself a group of columns is
/// followed by its type: `usage: TokenUsage`. A struct that borrows from the row names the lifetime: `columns!(for<'r>
/// TurnColumns<'r> { … })`. Fields that no column of the table has follow with their first value: `columns!(SessionRow { … } and {
/// metadata: None })`.
macro_rules! columns {
    (@impl [$($generics:tt)*] $life:lifetime $row:ty { $($field:ident $(: $group:ty)?),* } $($other:ident: $value:expr),*) => {
        impl $($generics)* $crate::sqlite::columns::Columns for $row {
            fn names(into: &mut Vec<&'static str>) {
                $($crate::sqlite::columns::columns!(@name into $field $($group)?);)*
            }

            fn values<'v>(&'v self, into: &mut Vec<rusqlite::types::ToSqlOutput<'v>>) {
                $($crate::sqlite::columns::columns!(@value into (&self.$field) $($group)?);)*
            }
        }

        impl<$life> $crate::sqlite::fields::FromFields<$life> for $row {
            fn from_fields(
                fields: &mut $crate::sqlite::fields::Fields<$life>,
            ) -> $crate::sqlite::error::Stored<Self> {
                Ok(Self { $($field: fields.next()?,)* $($other: $value),* })
            }
        }
    };
    (@name $into:ident $field:ident) => {
        $into.push(stringify!($field))
    };
    (@name $into:ident $field:ident $group:ty) => {
        <$group as $crate::sqlite::columns::Columns>::names($into)
    };
    (@value $into:ident ($value:expr)) => {
        $into.push($crate::sqlite::fields::Column::bind($value))
    };
    (@value $into:ident ($value:expr) $group:ty) => {
        $crate::sqlite::columns::Columns::values($value, $into)
    };
    (for<$life:lifetime> $row:ty { $($field:ident $(: $group:ty)?),* $(,)? }) => {
        $crate::sqlite::columns::columns!(@impl [<$life>] $life $row { $($field $(: $group)?),* });
    };
    ($row:ty { $($field:ident $(: $group:ty)?),* $(,)? } $(and { $($other:ident: $value:expr),* })?) => {
        $crate::sqlite::columns::columns!(@impl [] 'r $row { $($field $(: $group)?),* } $($($other: $value),*)?);
    };
}
pub(crate) use columns;
