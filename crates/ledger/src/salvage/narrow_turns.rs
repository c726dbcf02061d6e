//! The narrow rows of turns, and the texts that they name by numbers, as rows with the columns of the view `turns`.
//!
//! It must never give a turn a text whose row was altered while there is an intact copy of it.

use std::collections::HashMap;
use std::sync::Arc;

use super::cells::Value;
use super::row::{Layout, TableRow};
use crate::rows::strings;
use crate::rows::turn_words::{ERROR_KINDS, ROLES, STATUSES, STOP_REASONS, TURN_TYPES, word};

/// The rows of `turn_rows` with their numbers, and the rows of `strings`.
#[derive(Default)]
pub(super) struct NarrowTurns {
    turns: Vec<(i64, TableRow)>,
    strings: HashMap<i64, String>,
}

impl NarrowTurns {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether the row is one of `turn_rows`.
    pub(super) fn is_turn(row: &TableRow) -> bool {
        let is_number = |column| row.integer(column).is_some();
        row.is_complete()
            && ["depth", "thread_tokens", "started_at", "tool_call_count"]
                .into_iter()
                .all(is_number)
            && row.text("session_label").is_some()
            && row.text("run_id").is_some()
    }

    /// Adds a row of `turn_rows`.
    pub(super) fn take(&mut self, number: i64, row: TableRow) {
        self.turns.push((number, row));
    }

    /// Adds a row of `strings`; false if it is of another table.
    pub(super) fn take_string(&mut self, number: i64, values: &[Value]) -> bool {
        let [Value::Null, Value::Text(text), Value::Integer(sum)] = values else { return false };
        if strings::sum(text) == *sum {
            self.strings.insert(number, text.clone());
        } else {
            self.strings.entry(number).or_insert_with(|| text.clone());
        }
        true
    }

    /// Adds an entry of the index of `strings`, which has a copy of each text.
    pub(super) fn take_entry(&mut self, entry: &[Value]) {
        if let [Value::Integer(sum), Value::Text(text), Value::Integer(number)] = entry
            && strings::sum(text) == *sum
        {
            self.strings.insert(*number, text.clone());
        }
    }

    /// The rows with the columns of `turns`; `id_of` has the id of a turn by its number.
    pub(super) fn turns(
        self,
        layout: &Arc<Layout>,
        id_of: impl Fn(i64) -> String,
    ) -> Vec<TableRow> {
        let Self { turns, strings } = self;
        let row = |(number, row): &(i64, TableRow)| {
            let text_of =
                |text: Option<&str>| text.map_or(Value::Null, |text| Value::Text(text.to_owned()));
            let listed = |words: &[&str], column: &str| {
                text_of(row.integer(column).and_then(|number| word(words, number)))
            };
            TableRow::of(layout, |column| match column {
                "n" => Value::Integer(*number),
                "parent_turn_id" => {
                    row.integer("parent").map_or(Value::Null, |parent| Value::Text(id_of(parent)))
                }
                "has_children" => Value::Integer(i64::from(row.integer("first_child").is_some())),
                "turn_type" => listed(&TURN_TYPES, column),
                "status" => listed(&STATUSES, column),
                "role" => listed(&ROLES, column),
                "stop_reason" => listed(&STOP_REASONS, column),
                "error_kind" => listed(&ERROR_KINDS, column),
                "model"
                | "provider"
                | "toolset_name"
                | "tools_available"
                | "permissions_granted"
                | "permissions_used"
                | "workspace_path"
                | "error_code" => {
                    let text = row.integer(column).and_then(|number| strings.get(&number));
                    text_of(text.map(String::as_str))
                }
                _ => row.value(column).cloned().unwrap_or(Value::Null),
            })
        };
        turns.iter().map(row).collect()
    }
}
