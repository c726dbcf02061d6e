//! The narrow rows of turns, messages and calls as rows with the columns of their views: texts by their numbers, words of fixed lists,
//! and the values of calls that a message has.
//!
//! It must never give a row a text whose own row was altered while there is an intact copy of it.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::cells::Value;
use super::row::{Layout, TableRow};
use crate::rows::narrow::strings;
use crate::rows::narrow::words::{
    CALL_STATUSES, ERROR_KINDS, MESSAGE_ROLES, REPLAYS, ROLES, STATUSES, STOP_REASONS, TURN_TYPES,
    word,
};

/// The rows of `turn_rows` with their numbers, and the rows of `strings`.
#[derive(Default)]
pub(super) struct NarrowRows {
    turns: Vec<(i64, TableRow)>,
    strings: HashMap<i64, String>,
}

impl NarrowRows {
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

    /// Whether the row is one of `message_rows`.
    pub(super) fn is_message(row: &TableRow) -> bool {
        row.is_complete()
            && row.integer("role").is_some_and(|role| word(&MESSAGE_ROLES, role).is_some())
            && row.integer("checksum").is_some()
            && row.text("content").is_some()
    }

    /// Whether the row is one of `call_rows`.
    pub(super) fn is_call(row: &TableRow) -> bool {
        row.is_complete()
            && row.integer("status").is_some_and(|status| word(&CALL_STATUSES, status).is_some())
            && row.integer("started_at").is_some()
            && row.text("provider_call_id").is_some()
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

    /// The text that the number in a column names.
    fn text(&self, row: &TableRow, column: &str) -> Value {
        let text = row.integer(column).and_then(|number| self.strings.get(&number));
        value_of(text.map(String::as_str))
    }

    /// The turns with the columns of `turns`; `id_of` has the id of a turn by its number.
    pub(super) fn turns(
        &self,
        layout: &Arc<Layout>,
        id_of: impl Fn(i64) -> String,
    ) -> Vec<TableRow> {
        let row = |(number, row): &(i64, TableRow)| {
            TableRow::of(layout, |column| match column {
                "n" => Value::Integer(*number),
                "parent_turn_id" => {
                    row.integer("parent").map_or(Value::Null, |parent| Value::Text(id_of(parent)))
                }
                "has_children" => Value::Integer(i64::from(row.integer("first_child").is_some())),
                "turn_type" => listed(row, &TURN_TYPES, column),
                "status" => listed(row, &STATUSES, column),
                "role" => listed(row, &ROLES, column),
                "stop_reason" => listed(row, &STOP_REASONS, column),
                "error_kind" => listed(row, &ERROR_KINDS, column),
                "model"
                | "provider"
                | "toolset_name"
                | "tools_available"
                | "permissions_granted"
                | "permissions_used"
                | "workspace_path"
                | "error_code" => self.text(row, column),
                _ => row.value(column).cloned().unwrap_or(Value::Null),
            })
        };
        self.turns.iter().map(row).collect()
    }

    /// A message with the columns of `message_values`.
    pub(super) fn message(&self, row: &TableRow, layout: &Arc<Layout>) -> TableRow {
        TableRow::of(layout, |column| match column {
            "role" => listed(row, &MESSAGE_ROLES, column),
            "provider" | "api" | "model" | "stop_reason" => self.text(row, column),
            "blocks_json" if row.integer("result_of").is_some() => {
                let Value::Text(tool) = self.text(row, "result_of") else { return Value::Null };
                let bytes = row.text("content").map_or(0, str::len);
                Value::Text(format!(
                    r#"[{{"type":"tool_result","toolName":{},"content":[{{"type":"text","textBytes":{bytes}}}]}}]"#,
                    Json::String(tool)
                ))
            }
            _ => row.value(column).cloned().unwrap_or(Value::Null),
        })
    }

    /// A call with the columns of `call_values`; `message_at` has the messages of its turn by their positions, with the columns of
    /// `message_values`.
    pub(super) fn call<'m>(
        &self,
        row: &TableRow,
        layout: &Arc<Layout>,
        message_at: impl Fn(i64) -> Option<&'m TableRow>,
    ) -> TableRow {
        let message = row.integer("message").and_then(&message_at);
        TableRow::of(layout, |column| match column {
            "message_id" => value_of(message.and_then(|message| message.text("id"))),
            "tool_name" => self.text(row, column),
            "status" => listed(row, &CALL_STATUSES, column),
            "replay" => listed(row, &REPLAYS, column),
            "params_json" if row.integer("block").is_some() => {
                let block = row.integer("block").and_then(|at| usize::try_from(at).ok());
                let blocks = message.and_then(|message| message.text("blocks_json"));
                let blocks = blocks.and_then(|json| serde_json::from_str::<Json>(json).ok());
                let arguments = blocks.zip(block).and_then(|(blocks, at)| {
                    blocks.get(at)?.get("argumentsJson")?.as_str().map(ToOwned::to_owned)
                });
                arguments.map_or(Value::Null, Value::Text)
            }
            "result_json" if row.integer("result_message").is_some() => {
                let message = row.integer("result_message").and_then(&message_at);
                let content = message.and_then(|message| message.text("content"));
                content.and_then(|content| result(row, content)).map_or(Value::Null, Value::Text)
            }
            "arguments_hash" => match row.value(column) {
                Some(Value::Blob(bytes)) => {
                    Value::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
                }
                other => other.cloned().unwrap_or(Value::Null),
            },
            _ => row.value(column).cloned().unwrap_or(Value::Null),
        })
    }
}

/// The result of a call, with the text that a message has.
fn result(row: &TableRow, content: &str) -> Option<String> {
    let Some(at) = row.integer("result_at") else { return Some(content.to_owned()) };
    let rest = row.text("result_json")?;
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    let (before, after) = rest.split_at(ends.clone().nth(usize::try_from(at).ok()?)?);
    Some(format!("{before}{}{after}", Json::from(content)))
}

fn listed(row: &TableRow, words: &[&str], column: &str) -> Value {
    value_of(row.integer(column).and_then(|number| word(words, number)))
}

fn value_of(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |text| Value::Text(text.to_owned()))
}
