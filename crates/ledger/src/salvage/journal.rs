//! The turns in the journal of a damaged ledger, in the form of their rows.
//!
//! An entry is recognised by its frame and used only if its checksum is right. An entry must never be attributed to another
//! run.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::Value;
use crate::journal_codec::{CallRecord, EntryKind, MessageRecord, OpeningRecord, fold, open};

/// The commit points of every run, by their ids, and the turns whose runs have not ended.
#[derive(Default)]
pub(super) struct Journal {
    entries: BTreeMap<i64, BTreeMap<i64, Vec<u8>>>,
    open: BTreeSet<String>,
}

/// A turn as rows of `turns`, `messages` and `tool_calls`.
pub(super) struct JournalTurn {
    pub(super) turn: Vec<Value>,
    pub(super) is_open: bool,
    pub(super) messages: Vec<Vec<Value>>,
    pub(super) calls: Vec<Vec<Value>>,
    /// The host's metadata: JSON.
    pub(super) metadata: Option<String>,
}

impl Journal {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an entry, if it is of a commit point and unaltered.
    pub(super) fn take(&mut self, id: i64, (run, kind): (i64, i64), entry: &[u8]) {
        let kind = EntryKind::of(kind).filter(|kind| *kind == EntryKind::CommitPoint);
        if let Some(content) = kind.and_then(|kind| open(run, kind, entry)) {
            self.entries.entry(run).or_default().insert(id, content.into_owned());
        }
    }

    /// Adds a row of `runs`, if it is the run of an open turn. The values are in the order of the columns.
    pub(super) fn take_run(&mut self, values: &[Value]) {
        if let [
            Value::Null,
            Value::Text(turn),
            Value::Text(_),
            Value::Text(_),
            Value::Integer(_),
            Value::Null,
            Value::Integer(_),
            ..,
        ] = values
        {
            self.open.insert(turn.clone());
        }
    }

    /// Folds the entries. A turn whose opening is lost has no id, and is lost.
    pub(super) fn turns(self) -> Vec<JournalTurn> {
        let Self { entries, open } = self;
        let runs = entries.into_values();
        runs.filter_map(|entries| {
            let state = fold(entries.values().map(|content| Some(content.as_slice())));
            let opening = state.opening?;
            let id = opening.turn_id;
            Some(JournalTurn {
                turn: turn(&opening),
                is_open: open.contains(id),
                messages: state.messages.iter().map(|record| message(id, record)).collect(),
                calls: state.calls.iter().map(|record| call(id, record)).collect(),
                metadata: state.metadata.map(ToOwned::to_owned),
            })
        })
        .collect()
    }
}

fn text(value: Option<&str>) -> Value {
    value.map_or(Value::Null, |text| Value::Text(text.to_owned()))
}

fn some(value: &str) -> Value {
    Value::Text(value.to_owned())
}

fn integer(value: Option<i64>) -> Value {
    value.map_or(Value::Null, Value::Integer)
}

/// The values in the order of the columns of `turns`.
fn turn(of: &OpeningRecord<'_>) -> Vec<Value> {
    let mut row = vec![Value::Null; 38];
    let known = [
        (0, some(of.turn_id)),
        (1, text(of.parent_turn_id)),
        (2, some("normal")),
        (3, some("streaming")),
        (7, some(of.session_label)),
        (8, some(of.run_id)),
        (9, Value::Integer(of.started_at)),
        (11, some(of.model)),
        (12, some(of.provider)),
        (13, some(of.role)),
        (14, text(of.toolset_name)),
        (15, some(of.tools_available)),
        (16, some(of.permissions_granted)),
        (27, some(of.query_message_ids)),
        (30, text(of.source_event_id)),
        (31, text(of.workspace_path)),
    ];
    for (at, value) in known {
        if let Some(column) = row.get_mut(at) {
            *column = value;
        }
    }
    row
}

/// The values in the order of the columns of `messages`.
fn message(turn: &str, of: &MessageRecord<'_>) -> Vec<Value> {
    vec![
        some(of.id),
        some(turn),
        some(of.role),
        Value::Null,
        Value::Integer(of.sequence.into()),
        Value::Integer(of.created_at),
        text(of.tool_call_id),
        integer(of.is_error.map(i64::from)),
        text(of.provider),
        text(of.api),
        text(of.model),
        text(of.response_id),
        text(of.stop_reason),
        Value::Integer(of.checksum),
        Value::Null,
        Value::Null,
        some(of.content),
        text(of.thinking),
        text(of.blocks_json),
        text(of.blobs_json),
    ]
}

/// The values in the order of the columns of `tool_calls`.
fn call(turn: &str, of: &CallRecord<'_>) -> Vec<Value> {
    vec![
        some(of.id),
        some(of.provider_call_id),
        some(turn),
        text(of.message_id),
        some(of.tool_name),
        Value::Null,
        some(of.status),
        text(of.spawned_session_label),
        Value::Integer(of.started_at),
        integer(of.completed_at),
        Value::Integer(of.sequence.into()),
        text(of.error),
        some(of.params_json),
        text(of.result_json),
        text(of.replay),
        text(of.arguments_hash),
        text(of.blobs_json),
    ]
}
