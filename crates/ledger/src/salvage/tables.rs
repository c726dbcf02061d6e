//! Rows without their tables: each is known by what stands in its columns, whose order never changes (a migration only
//! adds at the end).
//!
//! Of two copies of a row the later one counts. It must never take a message whose checksum is not its content's.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::cells::{Row, Value};
use crate::rows::blobs;
use crate::rows::message_codec;
use crate::rows::message_columns::ContentRef;
use crate::sessions::persona;
use crate::sqlite::checksum;
use crate::sqlite::error::damaged;
use crate::sqlite::functions::agent_of;
use crate::transfer::{MessageRecord, Moved};
use model::{CompactionResult, Message, Provenance, Role, SessionRow};

/// Where a message has its `blobs_json`, and the columns that it speaks of.
const MESSAGE_BLOBS: usize = 19;
const MESSAGE_COLUMNS: [(&str, usize); 3] =
    [("content", 16), ("thinking", 17), ("blocks_json", 18)];
/// The same of a tool call.
const CALL_BLOBS: usize = 16;
const CALL_COLUMNS: [(&str, usize); 2] = [("params_json", 12), ("result_json", 13)];

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
    /// Large values by their hash, as they stand in the file: only those that are what it says.
    blobs: HashMap<String, Blob>,
    /// The rows that name some, which may stand anywhere.
    large: Vec<(String, Columns)>,
    /// The large values of tool calls that are lost, in words.
    pub(super) lost: Vec<String>,
    /// Rows that were taken though they are not as they were written, in words.
    pub(super) altered: BTreeSet<String>,
}

struct Blob {
    size: i64,
    codec: String,
    data: Vec<u8>,
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

    /// Whether it is as it was written to `table`; true where it was written before rows had a checksum.
    fn is_whole(&self, table: &str) -> bool {
        let names = checksum::columns(table);
        // The one column of these tables that no checksum covers.
        let children = usize::from(table == "turns");
        let covered = self.0.iter().enumerate().filter(|(at, _)| children == 0 || *at != 4);
        let values = covered.map(|(_, value)| value.lend());
        match self.integer(names.split(", ").count() + children) {
            Some(sum) => checksum::of_values(names, values) == sum,
            None => true,
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
            if let (Some(number), Some(label), Some(turn), Some(at)) =
                (number, row.owned(1), row.owned(2), row.integer(3))
                // A context of a run has a text, a JSON and its checksum there.
                && (row.0.len() == 5 || row.0.len() == 4 && !turn.starts_with('{'))
            {
                let moved = Moved { turn_id: turn, changed_at: at };
                self.log.entry(label).or_default().insert(number, moved);
            }
            return;
        };
        let is_table = number.is_some();
        if is_table && row.is_one_of(2, &["normal", "compaction"]) && row.text(7).is_some() {
            let ended = |row: &Columns| row.is_one_of(3, &["completed", "aborted", "failed"]);
            let better = |before: &Columns| match (row.is_whole("turns"), before.is_whole("turns"))
            {
                (true, false) => true,
                (false, true) => false,
                _ => ended(&row) || !ended(before),
            };
            if self.turns.get(&first).is_none_or(better) {
                self.turns.insert(first, row);
            }
        } else if is_table
            && row.is_one_of(2, &["user", "assistant", "system", "tool"])
            && row.integer(13).is_some()
        {
            if row.text(MESSAGE_BLOBS).is_some() {
                self.large.push((first, row));
            } else {
                self.message(first, &row);
            }
        } else if is_table
            && row.0.len() == 4
            && let (Some(size), Some(codec), Some(Value::Blob(data))) =
                (row.integer(1), row.text(2), row.0.get(3))
        {
            if blobs::unpack(&first, size, codec, data).is_some() {
                let blob = Blob { size, codec: codec.to_owned(), data: data.clone() };
                self.blobs.insert(first, blob);
            }
        } else if is_table
            && row.is_one_of(6, &["pending", "running", "completed", "failed"])
            && let Some(turn) = row.owned(2)
        {
            let calls = self.calls.entry(turn).or_default();
            let better =
                |before: &Columns| row.is_whole("tool_calls") || !before.is_whole("tool_calls");
            if calls.get(&first).is_none_or(better) {
                calls.insert(first, row);
            }
        } else if !is_table && row.is_one_of(14, &["active", "archived"]) {
            let name = format!("session `{first}`");
            let (whole, altered) = (row.is_whole("sessions"), self.altered.contains(&name));
            let session = session(first, &row);
            let before = self.sessions.get(&session.label);
            let newer = before.is_none_or(|before| before.updated_at <= session.updated_at);
            if before.is_none() || whole && (altered || newer) || altered && newer {
                if whole {
                    self.altered.remove(&name);
                } else {
                    self.altered.insert(name);
                }
                self.sessions.insert(session.label.clone(), session);
            }
        } else if !is_table
            && row.is_one_of(
                1,
                &["summary", "sliding_window", "hard_clear", "tool_result_truncation"],
            )
            && let Some(compaction) = compaction(&row)
            && (row.is_whole("compactions") || !self.compactions.contains_key(&first))
        {
            self.note("compactions", "compaction", &first, &row);
            self.compactions.insert(first, compaction);
        }
    }

    /// Remembers a row that is not as it was written.
    fn note(&mut self, table: &str, what: &str, id: &str, row: &Columns) {
        let name = format!("{what} `{id}`");
        if row.is_whole(table) {
            self.altered.remove(&name);
        } else {
            self.altered.insert(name);
        }
    }

    /// Gives the rows their large values back, now that every page was read.
    pub(super) fn settle(&mut self) {
        let turns = self.turns.iter().filter(|(_, row)| !row.is_whole("turns"));
        self.altered.extend(turns.map(|(id, _)| format!("turn `{id}`")));
        let calls = self.calls.values().flatten().filter(|(_, row)| !row.is_whole("tool_calls"));
        self.altered.extend(calls.map(|(id, _)| format!("tool call `{id}`")));
        for (id, row) in std::mem::take(&mut self.large) {
            let of = format!("message `{id}`");
            let whole = self.whole(row, MESSAGE_BLOBS, MESSAGE_COLUMNS, &of);
            // What is lost of it makes its checksum wrong.
            self.message(id, &whole.0);
        }
        let mut calls = std::mem::take(&mut self.calls);
        for (id, row) in calls.values_mut().flatten() {
            if row.text(CALL_BLOBS).is_some() {
                let of = format!("tool call `{id}`");
                let (whole, lost) = self.whole(row.clone(), CALL_BLOBS, CALL_COLUMNS, &of);
                *row = whole;
                self.lost.extend(lost.iter().map(|column| format!("the `{column}` of {of}")));
            }
        }
        self.calls = calls;
    }

    /// The row with its large values; one that is lost is NULL, and told by its column.
    fn whole<const N: usize>(
        &self,
        mut row: Columns,
        names_at: usize,
        columns: [(&'static str, usize); N],
        of: &str,
    ) -> (Columns, Vec<&'static str>) {
        let names = row.owned(names_at).unwrap_or_default();
        let mut read = |hash: &str| {
            let blob = self.blobs.get(hash);
            blob.and_then(|blob| blobs::unpack(hash, blob.size, &blob.codec, &blob.data))
                .ok_or_else(|| damaged(of))
        };
        let mut lost = Vec::new();
        for (column, at) in columns {
            let whole = blobs::put_together(&names, [(column, row.text(at))], of, &mut read);
            let whole = whole.map(|[whole]| whole.map(std::borrow::Cow::into_owned));
            if whole.is_err() {
                lost.push(column);
            }
            if let Some(value) = row.0.get_mut(at) {
                *value = whole.ok().flatten().map_or(Value::Null, Value::Text);
            }
        }
        (row, lost)
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
    let columns = ContentRef {
        content: row.text(16)?,
        thinking: row.text(17),
        blocks_json: row.text(18),
        tool_call_id: row.text(6),
        is_error: row.integer(7).map(|value| value != 0),
    };
    if message_codec::checksum(role.as_str(), columns, provenance) != row.integer(13)? {
        return None;
    }
    let [provider, api, model, response_id, stop] =
        provenance.map(|text| text.map(ToOwned::to_owned));
    Some(Message {
        id: id.to_owned(),
        role,
        blocks: message_codec::decode(columns).ok()?,
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
