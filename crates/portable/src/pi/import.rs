//! Converts a session of pi to records of a session and its turns. Pure: it must never touch the ledger.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::calls::calls;
use super::entries::Session;
use super::messages::{metadata, time_of};
use super::sums::Sums;
use super::turns::EntryTurns;
use crate::finish::{DEFAULT_PERSONA, agent_of};
use crate::iso_time;
use crate::record::{MessageRecord, Moved, SessionRecord, TurnRecord};
use crate::report::Problems;
use crate::restore::Record;
use base::clock::Clock;
use model::{CompactionResult, Role, SessionRow};

/// The origin of a session, and its label in the ledger.
pub(crate) struct Origin<'a> {
    /// The name of the system.
    pub(crate) name: &'static str,
    /// The label of the imported session.
    pub(crate) label: &'a str,
    /// The id of the session in that system.
    pub(crate) id: Option<&'a str>,
}

/// The records of a session, in the order in which they are written, each with its line.
pub(crate) fn records(
    session: &Session,
    origin: &Origin<'_>,
    problems: &mut Problems,
    clock: &Clock,
) -> Vec<(u64, Record)> {
    let cut = EntryTurns::of(session, problems);
    let ids: Vec<String> = cut.turns.iter().map(|_| clock.new_id()).collect();
    let results = cut.messages.iter().flatten().filter_map(|it| it.message.tool_result());
    let answered = results.map(|(id, _)| id.to_owned()).collect();
    let header = session.header.as_ref();
    let began = header
        .and_then(|header| iso_time::parse(header.get("timestamp")?.as_str()?))
        .or_else(|| session.entries.iter().find_map(time_of))
        .unwrap_or_else(|| clock.now_ms());
    let notes = notes(session, &cut);
    let head = cut.leaf().and_then(|leaf| ids.get(cut.turn_of(leaf)?).cloned());
    let builder = Builder { cut, ids, answered, notes };
    let mut depths: Vec<i64> = Vec::new();
    let mut records = Vec::with_capacity(builder.ids.len() + 1);
    let mut ended = began;
    for at in 0..builder.ids.len() {
        if let Some((line, mut turn)) = builder.turn(at, origin, header, clock) {
            let above = builder.cut.parent(at).and_then(|parent| depths.get(parent));
            turn.depth = above.map_or(0, |depth| depth + 1);
            if let Some(compaction) = &mut turn.compaction {
                compaction.turns_summarized =
                    compaction.turns_summarized.min(turn.depth.cast_unsigned());
            }
            depths.push(turn.depth);
            ended = ended.max(turn.completed_at.unwrap_or(ended));
            records.push((line, Record::Turn(Box::new(turn))));
        }
    }
    let history =
        head.iter().map(|turn| Moved { turn_id: turn.clone(), changed_at: ended }).collect();
    let row = SessionRow {
        label: origin.label.to_owned(),
        thread_id: head,
        persona_id: DEFAULT_PERSONA.to_owned(),
        agent_id: agent_of(origin.label, DEFAULT_PERSONA),
        is_subagent: false,
        parent_session_label: None,
        parent_turn_id: None,
        spawn_tool_call_id: None,
        task_description: None,
        task_status: None,
        routing_key: None,
        origin: Some(origin.name.to_owned()),
        origin_session_id: origin.id.map(ToOwned::to_owned),
        created_at: began,
        updated_at: ended,
        status: "active".to_owned(),
        metadata: None,
    };
    let record = SessionRecord { session: row, history };
    records.insert(0, (1, Record::Session(Box::new(record))));
    records
}

/// The entries without a message. They are stored with the nearest preceding message, or with the first message.
struct Notes {
    first: Vec<Value>,
    after: HashMap<usize, Vec<Value>>,
}

fn notes(session: &Session, cut: &EntryTurns<'_>) -> Notes {
    let mut notes = Notes { first: Vec::new(), after: HashMap::new() };
    notes.first.extend(session.header.clone().map(Value::Object));
    for (at, entry) in session.entries.iter().enumerate() {
        if cut.message(at).is_none() {
            let raw = Value::Object(entry.raw.clone());
            match cut.above.get(at).copied().flatten() {
                Some(above) => notes.after.entry(above).or_default().push(raw),
                None => notes.first.push(raw),
            }
        }
    }
    notes
}

struct Builder<'a> {
    cut: EntryTurns<'a>,
    /// The ids of the turns.
    ids: Vec<String>,
    /// The ids of the calls that have a result.
    answered: HashSet<String>,
    notes: Notes,
}

impl Builder<'_> {
    fn turn(
        &self,
        at: usize,
        origin: &Origin<'_>,
        header: Option<&Map<String, Value>>,
        clock: &Clock,
    ) -> Option<(u64, TurnRecord)> {
        let members = self.cut.turns.get(at)?;
        let first_entry = *members.first()?;
        let line = self.cut.entries.get(first_entry)?.line;
        let mut messages = Vec::with_capacity(members.len());
        let mut sums = Sums::default();
        for (sequence, entry) in members.iter().enumerate() {
            let of_entry = self.cut.message(*entry)?;
            let before = if at == 0 && sequence == 0 { self.notes.first.as_slice() } else { &[] };
            let after = self.notes.after.get(entry).map_or(&[][..], Vec::as_slice);
            let mut message = of_entry.message.clone();
            message.sequence = u32::try_from(sequence).ok()?;
            sums.add(of_entry);
            messages.push(MessageRecord {
                message,
                metadata_json: Some(metadata(of_entry, before, after)),
                layers: None,
            });
        }
        let started_at = messages.first()?.message.created_at;
        let last = messages.iter().map(|it| it.message.created_at).max().unwrap_or(started_at);
        let id = self.ids.get(at)?.clone();
        let is_compaction = self.cut.message(first_entry)?.is_compaction;
        let compaction = is_compaction.then(|| self.compaction(at, first_entry, &id)).flatten();
        let (stop, status) = sums.ending();
        let parent = self.cut.parent(at);
        Some((
            line,
            TurnRecord {
                parent_turn_id: parent.and_then(|parent| self.ids.get(parent)).cloned(),
                turn_type: if is_compaction { "compaction" } else { "normal" }.to_owned(),
                status: status.to_owned(),
                session_label: origin.label.to_owned(),
                run_id: format!("{}:{}", origin.name, origin.id.unwrap_or("import")),
                depth: 0,
                started_at,
                completed_at: Some(last),
                model: sums.model.map(ToOwned::to_owned),
                provider: sums.provider.map(ToOwned::to_owned),
                role: "unified".to_owned(),
                toolset_name: None,
                tools_available: Vec::new(),
                permissions_granted: None,
                permissions_used: None,
                usage: sums.usage(),
                usage_estimated: false,
                context_tokens: sums.context,
                cost: sums.cost,
                query_message_ids: ids_of(&messages, Role::User),
                response_message_id: ids_of(&messages, Role::Assistant).pop(),
                source_event_id: None,
                metadata: None,
                workspace_path: header
                    .and_then(|header| header.get("cwd")?.as_str())
                    .map(ToOwned::to_owned),
                stop_reason: Some(stop.to_owned()),
                error: sums.error(),
                attempts: Vec::new(),
                compaction,
                tool_calls: calls(&self.answered, &messages, clock),
                approvals: Vec::new(),
                messages,
                id,
            },
        ))
    }

    /// The fields of a compaction. If it names no retained entry, it retains none.
    fn compaction(&self, at: usize, entry: usize, id: &str) -> Option<CompactionResult> {
        let raw = self.cut.entries.get(entry)?;
        let turn_id = |turn: usize| self.ids.get(turn).cloned();
        let retained = self.cut.first_retained(entry).and_then(|first| self.cut.turn_of(first));
        let through = self.cut.parent(retained.unwrap_or(at)).and_then(turn_id);
        let before = self.cut.messages.iter().take(entry).rev().flatten();
        let from = before.filter_map(|it| it.message.provenance.as_ref()).next();
        let summary = raw.text("summary")?.to_owned();
        Some(CompactionResult {
            summarized_through_turn_id: through.unwrap_or_else(|| id.to_owned()),
            first_kept_turn_id: retained.and_then(turn_id).unwrap_or_else(|| id.to_owned()),
            turns_summarized: retained.unwrap_or(at) as u64,
            model: from.map_or_else(|| "unknown".to_owned(), |from| from.model.clone()),
            provider: from.map_or_else(|| "unknown".to_owned(), |from| from.provider.clone()),
            tokens_before: raw.raw.get("tokensBefore").and_then(Value::as_u64).unwrap_or(0),
            tokens_after: 0,
            summary_tokens: summary.len() as u64 / 4,
            summarization_input_tokens: 0,
            summarization_output_tokens: 0,
            duration_ms: 0,
            trigger: "context_limit".to_owned(),
            compaction_type: "summary".to_owned(),
            summary,
        })
    }
}

fn ids_of(messages: &[MessageRecord], role: Role) -> Vec<String> {
    messages
        .iter()
        .filter(|message| message.message.role == role)
        .map(|message| message.message.id.clone())
        .collect()
}
