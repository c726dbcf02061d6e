//! The salvaged rows by table: the table of a row is recognised by the values in its columns.
//!
//! Of two copies of a row the later one is used. The queues of a broker are left out: what may have been answered is not asked
//! again. It must never use a message whose checksum does not match its content.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::cells::{Row, Value};
use super::indexed_ids::IndexedIds;
use super::journal::{Journal, JournalTurn};
use super::narrow_rows::NarrowRows;
use super::remembered::Remembered;
use super::row::{Layouts, TableRow};
use crate::rows::blobs;
use crate::rows::context_layers;
use crate::rows::message_codec;
use crate::rows::message_columns::{ContentRef, LARGE_COLUMNS};
use crate::rows::narrow::words::{CALL_STATUSES, MESSAGE_ROLES};
use crate::rows::row_key::{POSITION, sequence_of, turn_of};
use crate::sessions::persona;
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::functions::agent_of;
use model::{CompactionResult, Message, Metadata, Provenance, Role, SessionRow};
use portable::{MessageRecord, Moved};

/// All rows that were found.
pub(super) struct Tables {
    layouts: Layouts,
    pub(super) turns: HashMap<String, TableRow>,
    /// By turn, then by id.
    pub(super) messages: HashMap<String, BTreeMap<String, MessageRecord>>,
    pub(super) calls: HashMap<String, BTreeMap<String, TableRow>>,
    pub(super) sessions: BTreeMap<String, SessionRow>,
    pub(super) log: HashMap<String, BTreeMap<i64, Moved>>,
    pub(super) compactions: HashMap<String, CompactionResult>,
    /// The host's metadata: of turns by their ids, of sessions by their labels.
    pub(super) turn_metadata: HashMap<String, Metadata>,
    pub(super) session_metadata: HashMap<String, Metadata>,
    /// That of turns by their numbers.
    numbered_metadata: HashMap<i64, Metadata>,
    /// Altered messages, by turn and id.
    pub(super) damaged: BTreeSet<(String, String)>,
    /// Large values by their hash, in their stored form; only values whose hash is right.
    blobs: HashMap<String, Blob>,
    /// The messages with large values, whose blobs may be on any page.
    large: Vec<(String, TableRow)>,
    /// The large values of tool calls that are lost, by name.
    pub(super) lost: Vec<String>,
    /// The messages and calls by the numbers of their turns, whose rows may be on any page.
    numbered: Vec<(i64, TableRow)>,
    /// The ids of turns by their numbers: from their rows, and from an index with the session's label.
    ids: HashMap<i64, String>,
    indexed_ids: IndexedIds,
    /// The names of altered rows that are used all the same.
    pub(super) altered: BTreeSet<String>,
    journal: Journal,
    narrow: NarrowRows,
    pub(super) remembered: Remembered,
}

struct Blob {
    size: i64,
    codec: String,
    data: Vec<u8>,
}

impl Tables {
    /// An empty set of rows.
    pub(super) fn new() -> Stored<Self> {
        Ok(Self {
            layouts: Layouts::of_schema()?,
            turns: HashMap::new(),
            messages: HashMap::new(),
            calls: HashMap::new(),
            sessions: BTreeMap::new(),
            log: HashMap::new(),
            compactions: HashMap::new(),
            turn_metadata: HashMap::new(),
            session_metadata: HashMap::new(),
            numbered_metadata: HashMap::new(),
            damaged: BTreeSet::new(),
            blobs: HashMap::new(),
            large: Vec::new(),
            lost: Vec::new(),
            numbered: Vec::new(),
            ids: HashMap::new(),
            indexed_ids: IndexedIds::default(),
            altered: BTreeSet::new(),
            journal: Journal::default(),
            narrow: NarrowRows::default(),
            remembered: Remembered::default(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.journal.is_empty()
            && self.turns.is_empty()
            && self.narrow.is_empty()
            && self.messages.is_empty()
            && self.numbered.is_empty()
            && self.sessions.is_empty()
            && self.remembered.is_empty()
    }

    /// Adds a row, if its table is salvaged.
    pub(super) fn take(&mut self, (number, values): Row) {
        if let (Some(number), [_, Value::Integer(run), Value::Integer(kind), Value::Blob(entry)]) =
            (number, values.as_slice())
        {
            self.journal.take(number, (*run, *kind), entry);
            return;
        }
        self.journal.take_run(&values);
        if let Some(number) = number
            && self.narrow.take_string(number, &values)
        {
            return;
        }
        let values: Arc<[Value]> = values.into();
        match (number, values.first()) {
            (Some(number), Some(Value::Text(first))) => self.take_numbered(number, first, &values),
            (None, Some(Value::Text(_))) if self.remembered.take_forgotten(&values) => {}
            (None, Some(Value::Text(first))) => {
                if let [_, Value::Text(id), Value::Integer(number)] = &*values {
                    self.indexed_ids.add(first, id, *number);
                }
                self.take_keyed(first, &values);
            }
            // The rowid is the first column.
            (Some(number), _) => {
                let layouts = (&self.layouts.memory_scopes, &self.layouts.memory_facts);
                if !self.remembered.take(number, &values, layouts) {
                    self.take_move(number, &values);
                }
            }
            (None, _) => self.narrow.take_entry(&values),
        }
    }

    /// Adds a row of a table with rowids.
    fn take_numbered(&mut self, number: i64, first: &str, values: &Arc<[Value]>) {
        let narrow = TableRow::new(&self.layouts.turn_rows, values);
        if NarrowRows::is_turn(&narrow) {
            self.ids.insert(number, first.to_owned());
            self.narrow.take(number, narrow);
            return;
        }
        let turn = TableRow::new(&self.layouts.turns, values);
        let message = TableRow::new(&self.layouts.message_rows, values);
        let call = TableRow::new(&self.layouts.call_rows, values);
        if let [Value::Text(text), Value::Integer(_), Value::Null] = &**values {
            let row = TableRow::new(&self.layouts.turn_metadata, values);
            let metadata =
                row.with("turn", Value::Integer(number)).is_whole().then(|| text.clone());
            match metadata {
                Some(metadata) => {
                    self.numbered_metadata.insert(number, Metadata::stored(metadata));
                }
                None => self.lost.push(format!("the metadata of turn number {number}")),
            }
            return;
        }
        if NarrowRows::is_message(&message) || NarrowRows::is_call(&call) {
            let row = if NarrowRows::is_message(&message) { message } else { call };
            self.numbered.push((number, row.with("key", Value::Integer(number))));
            return;
        }
        if turn.is_complete() && turn.is_one_of("turn_type", &["normal", "compaction"]) {
            self.ids.insert(number, first.to_owned());
        }
        // The tables of older ledgers.
        let message = TableRow::new(&self.layouts.messages, values);
        let call = TableRow::new(&self.layouts.tool_calls, values);
        let blob = TableRow::new(&self.layouts.blobs, values);
        if turn.is_one_of("turn_type", &["normal", "compaction"])
            && turn.text("session_label").is_some()
        {
            self.take_turn(first, turn);
        } else if message.is_one_of("role", &MESSAGE_ROLES) && message.integer("checksum").is_some()
        {
            self.take_message(first, message);
        } else if values.len() == 4
            && let (Some(size), Some(codec), Some(Value::Blob(data))) =
                (blob.integer("size"), blob.text("codec"), blob.value("data"))
        {
            if blobs::unpack(first, size, codec, data).is_some() {
                let blob = Blob { size, codec: codec.to_owned(), data: data.clone() };
                self.blobs.insert(first.to_owned(), blob);
            }
        } else if call.is_one_of("status", &CALL_STATUSES) {
            self.take_call(first, call);
        }
    }

    fn take_turn(&mut self, id: &str, turn: TableRow) {
        let ended = |row: &TableRow| row.is_one_of("status", &["completed", "aborted", "failed"]);
        let better = |before: &TableRow| match (turn.is_whole(), before.is_whole()) {
            (true, false) => true,
            (false, true) => false,
            _ => ended(&turn) || !ended(before),
        };
        if self.turns.get(id).is_none_or(better) {
            self.turns.insert(id.to_owned(), turn);
        }
    }

    fn take_message(&mut self, id: &str, message: TableRow) {
        if message.text("blobs_json").is_some() {
            self.large.push((id.to_owned(), message));
        } else {
            self.message(id.to_owned(), &message);
        }
    }

    fn take_call(&mut self, id: &str, call: TableRow) {
        let Some(turn) = call.owned("turn_id") else { return };
        let calls = self.calls.entry(turn).or_default();
        let better = |before: &TableRow| call.is_whole() || !before.is_whole();
        if calls.get(id).is_none_or(better) {
            calls.insert(id.to_owned(), call);
        }
    }

    /// Adds the messages and calls whose turn is a number, after all pages were read.
    fn take_rows_of_turns(&mut self, narrow: &NarrowRows) {
        let is_message = |(_, row): &(i64, TableRow)| row.is_of(&self.layouts.message_rows);
        let (messages, calls): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.numbered).into_iter().partition(is_message);
        let mut values: HashMap<i64, TableRow> = HashMap::new();
        for (key, row) in messages {
            let message = narrow.message(&row, &self.layouts.message_values);
            let Some(id) = message.owned("id") else { continue };
            let row = message.in_layout(&self.layouts.messages, &self.position(key));
            // Calls share the values of an intact copy.
            if self::message(&id, &row).is_some() || !values.contains_key(&key) {
                values.insert(key, message);
            }
            self.take_message(&id, row);
        }
        for (key, row) in calls {
            let message_at = |at| values.get(&(turn_of(key) << POSITION | at));
            let call = narrow.call(&row, &self.layouts.call_values, message_at);
            let Some(id) = call.owned("id") else { continue };
            let row = call.in_layout(&self.layouts.tool_calls, &self.position(key));
            self.take_call(&id, row);
        }
    }

    /// The columns of the views `messages` and `tool_calls` that a key has.
    fn position(&self, key: i64) -> [(&'static str, Value); 2] {
        [
            ("turn_id", Value::Text(self.id_of(turn_of(key)))),
            ("sequence", Value::Integer(sequence_of(key).into())),
        ]
    }

    /// Adds the narrow rows of turns, after all pages were read: their parents and texts may be on any page.
    fn take_narrow_turns(&mut self, narrow: &NarrowRows) {
        for turn in narrow.turns(&self.layouts.turns, |number| self.id_of(number)) {
            if let Some(id) = turn.owned("id") {
                self.take_turn(&id, turn);
            }
        }
    }

    /// The id of a turn: by its row, else by the index of a session, else a new one, the same for all of its rows.
    fn id_of(&self, number: i64) -> String {
        let indexed = || self.indexed_ids.id(number, |label| self.sessions.contains_key(label));
        let known = self.ids.get(&number).cloned().or_else(indexed);
        known.unwrap_or_else(|| format!("salvaged-{number}"))
    }

    /// Adds a row of a table without rowids.
    fn take_keyed(&mut self, first: &str, values: &Arc<[Value]>) {
        const TYPES: [&str; 4] =
            ["summary", "sliding_window", "hard_clear", "tool_result_truncation"];
        if let [_, Value::Text(text), Value::Integer(_)] = &**values {
            let row = TableRow::new(&self.layouts.session_metadata, values);
            if row.is_whole() {
                self.session_metadata.insert(first.to_owned(), Metadata::stored(text.clone()));
            } else if text.starts_with('{') {
                self.lost.push(format!("the metadata of session `{first}`"));
            }
            return;
        }
        let session = TableRow::new(&self.layouts.sessions, values);
        let compaction = TableRow::new(&self.layouts.compactions, values);
        if session.is_one_of("status", &["active", "archived"]) {
            let name = format!("session `{first}`");
            let (whole, altered) = (session.is_whole(), self.altered.contains(&name));
            let session = session_row(first.to_owned(), &session);
            let before = self.sessions.get(&session.label);
            let newer = before.is_none_or(|before| before.updated_at <= session.updated_at);
            if before.is_none() || whole && (altered || newer) || altered && newer {
                self.note(name, whole);
                self.sessions.insert(session.label.clone(), session);
            }
        } else if compaction.is_one_of("compaction_type", &TYPES)
            && let Some(result) = compaction_result(&compaction)
            && (compaction.is_whole() || !self.compactions.contains_key(first))
        {
            self.note(format!("compaction `{first}`"), compaction.is_whole());
            self.compactions.insert(first.to_owned(), result);
        }
    }

    /// Adds a row of `session_history`.
    fn take_move(&mut self, number: i64, values: &Arc<[Value]>) {
        let row = TableRow::new(&self.layouts.session_history, values);
        if let (Some(label), Some(turn_id), Some(changed_at)) =
            (row.owned("session_label"), row.owned("thread_id"), row.integer("changed_at"))
            // A row of `run_contexts` has a text, a JSON and a checksum in these columns.
            && (values.len() == 5 || values.len() == 4 && !turn_id.starts_with('{'))
        {
            self.log.entry(label).or_default().insert(number, Moved { turn_id, changed_at });
        }
    }

    /// Adds a turn of the journal; of an ended turn, only the rows that are otherwise lost.
    fn take_open(&mut self, turn: JournalTurn) {
        let JournalTurn { turn, is_open, messages, calls, metadata } = turn;
        let row = TableRow::new(&self.layouts.turns, &turn.into());
        // The journal does not record how an ended turn ended.
        if let Some(id) = row.owned("id").filter(|_| is_open)
            && !self.turns.contains_key(&id)
        {
            let above = row.text("parent_turn_id").and_then(|parent| self.turns.get(parent));
            let depth = above.and_then(|above| above.integer("depth")).map_or(0, |depth| depth + 1);
            if let Some(metadata) = metadata {
                self.turn_metadata.insert(id.clone(), Metadata::stored(metadata));
            }
            self.turns.insert(id, row.with("depth", Value::Integer(depth)));
        }
        for values in messages {
            let row = TableRow::new(&self.layouts.messages, &values.into());
            let Some((id, of)) = row.owned("id").zip(row.owned("turn_id")) else { continue };
            if self.messages.get(&of).is_some_and(|known| known.contains_key(&id)) {
                continue;
            }
            if row.text("blobs_json").is_some() {
                self.large.push((id, row));
            } else {
                self.message(id, &row);
            }
        }
        for values in calls {
            let row = TableRow::new(&self.layouts.tool_calls, &values.into());
            let Some((id, of)) = row.owned("id").zip(row.owned("turn_id")) else { continue };
            self.calls.entry(of).or_default().entry(id).or_insert(row);
        }
    }

    /// Records whether a row is altered.
    fn note(&mut self, name: String, is_whole: bool) {
        if is_whole {
            self.altered.remove(&name);
        } else {
            self.altered.insert(name);
        }
    }

    /// Puts the large values into their rows, after all pages were read.
    pub(super) fn settle(&mut self) {
        let narrow = std::mem::take(&mut self.narrow);
        self.take_narrow_turns(&narrow);
        self.take_rows_of_turns(&narrow);
        for (number, metadata) in std::mem::take(&mut self.numbered_metadata) {
            self.turn_metadata.insert(self.id_of(number), metadata);
        }
        for turn in std::mem::take(&mut self.journal).turns() {
            self.take_open(turn);
        }
        let turns = self.turns.iter().filter(|(_, row)| !row.is_whole());
        self.altered.extend(turns.map(|(id, _)| format!("turn `{id}`")));
        let calls = self.calls.values().flatten().filter(|(_, row)| !row.is_whole());
        self.altered.extend(calls.map(|(id, _)| format!("tool call `{id}`")));
        for (id, row) in std::mem::take(&mut self.large) {
            let (whole, _) = self.whole(&row, &LARGE_COLUMNS, &format!("message `{id}`"));
            // A lost value makes the checksum of the message wrong.
            self.message(id, &whole);
        }
        let mut calls = std::mem::take(&mut self.calls);
        for (id, row) in calls.values_mut().flatten() {
            if row.text("blobs_json").is_some() {
                let of = format!("tool call `{id}`");
                let (whole, lost) = self.whole(row, &blobs::TOOL_CALL, &of);
                *row = whole;
                self.lost.extend(lost.iter().map(|column| format!("the `{column}` of {of}")));
            }
        }
        self.calls = calls;
    }

    /// The row with its large values. A lost value is NULL, and its column is in the list.
    fn whole(
        &self,
        row: &TableRow,
        columns: &[&'static str],
        of: &str,
    ) -> (TableRow, Vec<&'static str>) {
        let names = row.owned("blobs_json").unwrap_or_default();
        let mut read = |hash: &str| {
            let blob = self.blobs.get(hash);
            blob.and_then(|blob| blobs::unpack(hash, blob.size, &blob.codec, &blob.data))
                .ok_or_else(|| damaged(of))
        };
        let mut lost = Vec::new();
        let mut filled = row.clone();
        for column in columns {
            let value = blobs::put_together(&names, [(column, row.text(column))], of, &mut read);
            if value.is_err() {
                lost.push(*column);
            }
            let value = value.ok().and_then(|[value]| value);
            let value = value.map_or(Value::Null, |text| Value::Text(text.into_owned()));
            filled = filled.with(column, value);
        }
        (filled, lost)
    }

    fn message(&mut self, id: String, row: &TableRow) {
        let Some(turn) = row.owned("turn_id") else { return };
        match message(&id, row) {
            Some(message) => {
                self.damaged.remove(&(turn.clone(), id.clone()));
                // Layers that cannot be read are lost, and nothing else of the message is.
                let layers = context_layers::of_column(row.text("context_json")).ok().flatten();
                let metadata_json = row.owned("metadata_json");
                let message = MessageRecord { message, metadata_json, layers };
                self.messages.entry(turn).or_default().insert(id, message);
            }
            None if self.messages.get(&turn).is_some_and(|of| of.contains_key(&id)) => {}
            None => {
                self.damaged.insert((turn, id));
            }
        }
    }
}

fn message(id: &str, row: &TableRow) -> Option<Message> {
    let role = match row.text("role")? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => Role::Tool,
    };
    let provenance = ["provider", "api", "model", "response_id", "stop_reason"];
    let provenance = provenance.map(|column| row.text(column));
    let content = ContentRef {
        content: row.text("content")?,
        thinking: row.text("thinking"),
        blocks_json: row.text("blocks_json"),
        tool_call_id: row.text("tool_call_id"),
        is_error: row.integer("is_error").map(|value| value != 0),
    };
    if message_codec::checksum(role.as_str(), content, provenance) != row.integer("checksum")? {
        return None;
    }
    let [provider, api, model, response_id, provider_stop_reason] =
        provenance.map(|text| text.map(ToOwned::to_owned));
    Some(Message {
        id: id.to_owned(),
        role,
        blocks: message_codec::decode(content).ok()?,
        sequence: u32::try_from(row.integer("sequence")?).ok()?,
        created_at: row.integer("created_at")?,
        provenance: provider.zip(api).zip(model).map(|((provider, api), model)| Provenance {
            provider,
            api,
            model,
            response_id,
        }),
        provider_stop_reason,
    })
}

fn session_row(label: String, row: &TableRow) -> SessionRow {
    let persona_id = row.owned("persona_id").unwrap_or_else(|| persona::DEFAULT.to_owned());
    SessionRow {
        agent_id: agent_of(&label, &persona_id),
        label,
        thread_id: row.owned("thread_id"),
        persona_id,
        is_subagent: row.integer("is_subagent") == Some(1),
        parent_session_label: row.owned("parent_session_label"),
        parent_turn_id: row.owned("parent_turn_id"),
        spawn_tool_call_id: row.owned("spawn_tool_call_id"),
        task_description: row.owned("task_description"),
        task_status: row.owned("task_status"),
        routing_key: row.owned("routing_key"),
        origin: row.owned("origin"),
        origin_session_id: row.owned("origin_session_id"),
        created_at: row.integer("created_at").unwrap_or(0),
        updated_at: row.integer("updated_at").unwrap_or(0),
        status: row.owned("status").unwrap_or_else(|| "active".to_owned()),
        metadata: None,
    }
}

fn compaction_result(row: &TableRow) -> Option<CompactionResult> {
    Some(CompactionResult {
        compaction_type: row.owned("compaction_type")?,
        summary: row.owned("summary")?,
        summarized_through_turn_id: row.owned("summarized_through_turn_id")?,
        first_kept_turn_id: row.owned("first_kept_turn_id")?,
        turns_summarized: row.count("turns_summarized"),
        model: row.owned("model")?,
        provider: row.owned("provider")?,
        tokens_before: row.count("tokens_before"),
        tokens_after: row.count("tokens_after"),
        summary_tokens: row.count("summary_tokens"),
        summarization_input_tokens: row.count("summarization_input_tokens"),
        summarization_output_tokens: row.count("summarization_output_tokens"),
        duration_ms: row.count("duration_ms"),
        trigger: row.owned("trigger")?,
    })
}
