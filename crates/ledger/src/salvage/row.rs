//! A row of a page, with the names of its table's columns.
//!
//! The names come from the schema itself: a migration only adds columns at the end, so a row of an older version has the
//! same columns without the last ones. It must never guess a value of another type.

use std::sync::Arc;

use super::cells::Value;
use crate::sqlite::error::Stored;
use crate::sqlite::{checksum, connection, schema, sql};

/// The columns of a table, in the order of the file.
#[derive(Debug)]
pub(super) struct Layout {
    table: &'static str,
    columns: Vec<String>,
}

/// The layouts of the tables that are salvaged, and of the views with the values of narrow rows. `turns`, `messages` and
/// `tool_calls` are views with the columns that these tables had.
pub(super) struct Layouts {
    pub(super) turns: Arc<Layout>,
    pub(super) turn_rows: Arc<Layout>,
    pub(super) messages: Arc<Layout>,
    pub(super) tool_calls: Arc<Layout>,
    pub(super) message_rows: Arc<Layout>,
    pub(super) message_values: Arc<Layout>,
    pub(super) call_rows: Arc<Layout>,
    pub(super) call_values: Arc<Layout>,
    pub(super) sessions: Arc<Layout>,
    pub(super) session_history: Arc<Layout>,
    pub(super) compactions: Arc<Layout>,
    pub(super) turn_metadata: Arc<Layout>,
    pub(super) session_metadata: Arc<Layout>,
    pub(super) blobs: Arc<Layout>,
    pub(super) memory_scopes: Arc<Layout>,
    pub(super) memory_facts: Arc<Layout>,
}

impl Layouts {
    /// The layouts of the current schema.
    pub(super) fn of_schema() -> Stored<Self> {
        let connection = connection::in_memory()?;
        schema::migrate(&connection, schema::MIGRATIONS)?;
        let layout = |table: &'static str| {
            let select = "SELECT name FROM pragma_table_info(?1) ORDER BY cid";
            let columns = sql::all(&connection, select, (table,), "read the columns of a table")?;
            Ok(Arc::new(Layout { table, columns }))
        };
        Ok(Self {
            turns: layout("turns")?,
            turn_rows: layout("turn_rows")?,
            messages: layout("messages")?,
            tool_calls: layout("tool_calls")?,
            message_rows: layout("message_rows")?,
            message_values: layout("message_values")?,
            call_rows: layout("call_rows")?,
            call_values: layout("call_values")?,
            sessions: layout("sessions")?,
            session_history: layout("session_history")?,
            compactions: layout("compactions")?,
            turn_metadata: layout("turn_metadata")?,
            session_metadata: layout("session_metadata")?,
            blobs: layout("blobs")?,
            memory_scopes: layout("memory_scopes")?,
            memory_facts: layout("memory_facts")?,
        })
    }
}

/// The values of a row of a table. A value that is missing or of another type than requested is `None`.
#[derive(Debug, Clone)]
pub(super) struct TableRow {
    layout: Arc<Layout>,
    values: Arc<[Value]>,
}

impl TableRow {
    pub(super) fn new(layout: &Arc<Layout>, values: &Arc<[Value]>) -> Self {
        Self { layout: Arc::clone(layout), values: Arc::clone(values) }
    }

    pub(super) fn value(&self, column: &str) -> Option<&Value> {
        let at = self.layout.columns.iter().position(|name| name == column);
        debug_assert!(at.is_some(), "`{}` has no column `{column}`", self.layout.table);
        self.values.get(at?)
    }

    pub(super) fn text(&self, column: &str) -> Option<&str> {
        match self.value(column)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn owned(&self, column: &str) -> Option<String> {
        self.text(column).map(ToOwned::to_owned)
    }

    pub(super) fn integer(&self, column: &str) -> Option<i64> {
        match self.value(column)? {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// A count; 0 where it cannot be read.
    pub(super) fn count(&self, column: &str) -> u64 {
        self.integer(column).and_then(|value| u64::try_from(value).ok()).unwrap_or(0)
    }

    pub(super) fn real(&self, column: &str) -> Option<f64> {
        match self.value(column)? {
            Value::Real(value) => Some(*value),
            // SQLite stores a whole number as an integer.
            #[expect(clippy::cast_precision_loss, reason = "it was a float before it was stored")]
            Value::Integer(value) => Some(*value as f64),
            _ => None,
        }
    }

    pub(super) fn is_one_of(&self, column: &str, words: &[&str]) -> bool {
        self.text(column).is_some_and(|text| words.contains(&text))
    }

    /// Whether the row is unaltered; true if it was written before rows had checksums.
    pub(super) fn is_whole(&self) -> bool {
        let Some(sum) = self.integer("row_checksum") else { return true };
        let names = checksum::columns(self.layout.table);
        let values = names.split(", ").map(|name| self.value(name).unwrap_or(&Value::Null).lend());
        checksum::of_values(names, values) == sum
    }

    /// The row of `layout` with the value of each column.
    pub(super) fn of(layout: &Arc<Layout>, value: impl Fn(&str) -> Value) -> Self {
        let values = layout.columns.iter().map(|name| value(name)).collect();
        Self { layout: Arc::clone(layout), values }
    }

    pub(super) fn is_of(&self, layout: &Arc<Layout>) -> bool {
        Arc::ptr_eq(&self.layout, layout)
    }

    /// Whether the row has every column of its table.
    pub(super) fn is_complete(&self) -> bool {
        self.values.len() == self.layout.columns.len()
    }

    /// The values of the columns with the same name, in the order of another layout; `others` for those that this one lacks.
    /// Damage stays visible.
    pub(super) fn in_layout(&self, layout: &Arc<Layout>, others: &[(&str, Value)]) -> Self {
        let value = |name: &str| match others.iter().find(|(other, _)| *other == name) {
            Some((_, value)) => value.clone(),
            None => self.value(name).cloned().unwrap_or(Value::Null),
        };
        let row = Self::of(layout, value);
        let names = checksum::columns(layout.table);
        let values = names.split(", ").map(|name| row.value(name).unwrap_or(&Value::Null).lend());
        let damage = i64::from(!self.is_whole());
        let sum = checksum::of_values(names, values).wrapping_add(damage);
        row.with("row_checksum", Value::Integer(sum))
    }

    /// The row with another value in a column.
    pub(super) fn with(&self, column: &str, new: Value) -> Self {
        let mut values = self.values.to_vec();
        let at = self.layout.columns.iter().position(|name| name == column);
        if let Some(value) = at.and_then(|at| values.get_mut(at)) {
            *value = new;
        }
        Self { layout: Arc::clone(&self.layout), values: values.into() }
    }
}
