//! Rows without their tables: each is known by what stands in its columns, whose order never changes (a migration only
//! adds at the end).
//!
//! Of two copies of a row the later one counts. It must never take a message whose checksum is not its content's.

use std::collections::{BTreeMap, HashMap};

use super::super::functions::agent_of;
use super::super::persona;
use super::super::rows::SessionRow;
use super::super::stored::{self, ColumnsRef};
use super::super::transfer::{MessageRecord, Moved};
use super::cells::{Row, Value};
use crate::model::{CompactionResult, Message, Provenance, Role};

/// Everything that was found.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) turns: HashMap<String, Columns>,
    /// By turn, then by id.
    pub(super) messages: HashMap<String, BTreeMap<String, MessageRecord>>,
    pub(super) calls: HashMap<String, BTreeMap<String, Columns>>,
    pub(super) sessions: BTreeMap<String, SessionRow>,
    pub(super) log: HashMap<String, BTreeMap<i64, Moved>>,
    pub(super) compactions: HashMap<String, CompactionResult>,
    /// Messages that are there, but not as they were written: their turn and id.
    pub(super) damaged: BTreeMap<(String, String), ()>,
}

/// The values of a row, by their place.
#[derive(Debug, Clone)]
pub(super) struct Columns(Vec<Value>);

impl Columns {
    pub(super) fn text(&self, at: usize) -> Option<&str> {
        match self.0.get(at)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn owned(&self, at: usize) -> Option<String> {
        self.text(at).map(ToOwned::to_owned)
    }

    pub(super) fn integer(&self, at: usize) -> Option<i64> {
        match self.0.get(at)? {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn count(&self, at: usize) -> u64 {
        self.integer(at).and_then(|value| u64::try_from(value).ok()).unwrap_or(0)
    }

    pub(super) fn real(&self, at: usize) -> Option<f64> {
        match self.0.get(at)? {
            Value::Real(value) => Some(*value),
            // SQLite stores a whole number as one.
            #[expect(clippy::cast_precision_loss, reason = "it was a float before it was stored")]
            Value::Integer(value) => Some(*value as f64),
            _ => None,
        }
    }

    fn is_one_of(&self, at: usize, names: &[&str]) -> bool {
        self.text(at).is_some_and(|text| names.contains(&text))
    }
}

impl Tables {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.messages.is_empty() && self.sessions.is_empty()
    }

    /// Takes a row in, if it is one of a turn's.
    pub(super) fn take(&mut self, (number, values): Row) {
        let row = Columns(values);
        let Some(first) = row.owned(0) else {
            // The rowid stands for the first column.
            if let (Some(number), Some(label), Some(turn), Some(at), 4) =
                (number, row.owned(1), row.owned(2), row.integer(3), row.0.len())
            {
                let moved = Moved { turn_id: turn, changed_at: at };
                self.log.entry(label).or_default().insert(number, moved);
            }
            return;
        };
        let is_table = number.is_some();
        if is_table && row.is_one_of(2, &["normal", "compaction"]) && row.text(7).is_some() {
            let ended = |row: &Columns| row.is_one_of(3, &["completed", "aborted", "failed"]);
            if self.turns.get(&first).is_none_or(|before| ended(&row) || !ended(before)) {
                self.turns.insert(first, row);
            }
        } else if is_table
            && row.is_one_of(2, &["user", "assistant", "system", "tool"])
            && row.integer(13).is_some()
        {
            self.message(first, &row);
        } else if is_table
            && row.is_one_of(6, &["pending", "running", "completed", "failed"])
            && let Some(turn) = row.owned(2)
        {
            self.calls.entry(turn).or_default().insert(first, row);
        } else if !is_table && row.is_one_of(14, &["active", "archived"]) {
            let session = session(first, &row);
            let before = self.sessions.get(&session.label);
            if before.is_none_or(|before| before.updated_at <= session.updated_at) {
                self.sessions.insert(session.label.clone(), session);
            }
        } else if !is_table
            && row.is_one_of(
                1,
                &["summary", "sliding_window", "hard_clear", "tool_result_truncation"],
            )
            && let Some(compaction) = compaction(&row)
        {
            self.compactions.insert(first, compaction);
        }
    }

    fn message(&mut self, id: String, row: &Columns) {
        let Some(turn) = row.owned(1) else { return };
        match message(&id, row) {
            Some(message) => {
                self.damaged.remove(&(turn.clone(), id.clone()));
                let message = MessageRecord { message, metadata_json: row.owned(15) };
                self.messages.entry(turn).or_default().insert(id, message);
            }
            None if self.messages.get(&turn).is_some_and(|of| of.contains_key(&id)) => {}
            None => {
                self.damaged.insert((turn, id), ());
            }
        }
    }
}

fn message(id: &str, row: &Columns) -> Option<Message> {
    let role = match row.text(2)? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => Role::Tool,
    };
    let provenance = [8, 9, 10, 11, 12].map(|at| row.text(at));
    let columns = ColumnsRef {
        content: row.text(16)?,
        thinking: row.text(17),
        blocks_json: row.text(18),
        tool_call_id: row.text(6),
        is_error: row.integer(7).map(|value| value != 0),
    };
    if stored::checksum(role.as_str(), columns, provenance) != row.integer(13)? {
        return None;
    }
    let [provider, api, model, response_id, stop] =
        provenance.map(|text| text.map(ToOwned::to_owned));
    Some(Message {
        id: id.to_owned(),
        role,
        blocks: stored::decode(columns).ok()?,
        sequence: u32::try_from(row.integer(4)?).ok()?,
        created_at: row.integer(5)?,
        provenance: provider.zip(api).zip(model).map(|((provider, api), model)| Provenance {
            provider,
            api,
            model,
            response_id,
        }),
        provider_stop_reason: stop,
    })
}

fn session(label: String, row: &Columns) -> SessionRow {
    let persona_id = row.owned(2).unwrap_or_else(|| persona::DEFAULT.to_owned());
    SessionRow {
        agent_id: agent_of(&label, &persona_id),
        label,
        thread_id: row.owned(1),
        persona_id,
        is_subagent: row.integer(3) == Some(1),
        parent_session_label: row.owned(4),
        parent_turn_id: row.owned(5),
        spawn_tool_call_id: row.owned(6),
        task_description: row.owned(7),
        task_status: row.owned(8),
        routing_key: row.owned(9),
        origin: row.owned(10),
        origin_session_id: row.owned(11),
        created_at: row.integer(12).unwrap_or(0),
        updated_at: row.integer(13).unwrap_or(0),
        status: row.owned(14).unwrap_or_else(|| "active".to_owned()),
    }
}

fn compaction(row: &Columns) -> Option<CompactionResult> {
    Some(CompactionResult {
        compaction_type: row.owned(1)?,
        summary: row.owned(2)?,
        summarized_through_turn_id: row.owned(3)?,
        first_kept_turn_id: row.owned(4)?,
        turns_summarized: row.count(5),
        model: row.owned(6)?,
        provider: row.owned(7)?,
        tokens_before: row.count(8),
        tokens_after: row.count(9),
        summary_tokens: row.count(10),
        summarization_input_tokens: row.count(11),
        summarization_output_tokens: row.count(12),
        duration_ms: row.count(13),
        trigger: row.owned(14)?,
    })
}
