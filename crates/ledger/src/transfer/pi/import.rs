//! A session of pi as turns: its tree of entries, cut where a turn of ours begins.
//!
//! A turn is a question and everything until the next one. It also begins where a branch begins or a compaction cuts, so
//! that every place that pi can name is a turn that we can name. Pure; it must never touch the ledger.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::entries::{Entry, Session};
use super::speech::{Speech, metadata, speech, time_of};
use super::sums::Sums;
use crate::rows::iso_time;
use crate::sessions::persona;
use crate::sqlite::functions::agent_of;
use crate::transfer::record::{MessageRecord, Moved, SessionRecord, TurnRecord};
use crate::transfer::report::Problems;
use crate::transfer::restore::Record;
use base::clock::Clock;
use model::{
    AgentToolCall, Block, CompactionResult, Role, SessionRow, ToolCallStatus, TransferCode,
};

/// What a session becomes.
pub(crate) struct Origin<'a> {
    /// The name of the system it comes from.
    pub(crate) name: &'static str,
    /// The label it gets.
    pub(crate) label: &'a str,
    /// Its id there.
    pub(crate) id: Option<&'a str>,
}

/// Where an entry stands in the turns.
struct Places {
    /// What each entry says; `None` where it says nothing to the model.
    said: Vec<Option<Speech>>,
    /// The nearest entry at or above each that says something.
    spoken: Vec<Option<usize>>,
    /// The nearest above it that does.
    above: Vec<Option<usize>>,
    /// The turn of each that does.
    turn: Vec<Option<usize>>,
}

/// The records of a session, in the order in which they go in.
pub(crate) fn records(
    session: &Session,
    origin: &Origin<'_>,
    problems: &mut Problems,
    clock: &Clock,
) -> Vec<(u64, Record)> {
    let entries = &session.entries;
    let mut places = say(entries, problems);
    let turns = cut(entries, &mut places);
    let ids: Vec<String> = turns.iter().map(|_| clock.new_id()).collect();
    let answered: HashSet<&str> = places
        .said
        .iter()
        .flatten()
        .filter_map(|said| Some(said.message.tool_result()?.0))
        .collect();
    let notes = notes(session, &places);
    let header = session.header.as_ref();
    let began = header
        .and_then(|header| iso_time::parse(header.get("timestamp")?.as_str()?))
        .or_else(|| entries.iter().find_map(time_of))
        .unwrap_or_else(|| clock.now_ms());
    let builder = Builder { entries, places: &places, turns: &turns, ids: &ids, answered, notes };
    let mut depths: Vec<i64> = Vec::with_capacity(turns.len());
    let mut records = Vec::with_capacity(turns.len() + 1);
    let mut ended = began;
    for at in 0..turns.len() {
        if let Some((line, mut turn)) = builder.turn(at, origin, header, clock) {
            let above = builder.parent(at).and_then(|parent| depths.get(parent));
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
    let leaf =
        entries.len().checked_sub(1).and_then(|last| places.spoken.get(last).copied().flatten());
    let head = leaf.and_then(|leaf| ids.get(places.turn.get(leaf).copied().flatten()?).cloned());
    let history =
        head.iter().map(|turn| Moved { turn_id: turn.clone(), changed_at: ended }).collect();
    let row = SessionRow {
        label: origin.label.to_owned(),
        thread_id: head,
        persona_id: persona::DEFAULT.to_owned(),
        agent_id: agent_of(origin.label, persona::DEFAULT),
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
    };
    let record = SessionRecord { session: row, history };
    records.insert(0, (1, Record::Session(Box::new(record))));
    records
}

fn say(entries: &[Entry], problems: &mut Problems) -> Places {
    let mut places = Places {
        said: Vec::new(),
        spoken: Vec::new(),
        above: Vec::new(),
        turn: vec![None; entries.len()],
    };
    for (at, entry) in entries.iter().enumerate() {
        let above = entry.parent.and_then(|parent| places.spoken.get(parent).copied().flatten());
        let said = speech(entry).unwrap_or_else(|why| {
            problems.add(entry.line, TransferCode::InvalidLine, format!("the line {why}"));
            None
        });
        places.spoken.push(if said.is_some() { Some(at) } else { above });
        places.above.push(above);
        places.said.push(said);
    }
    places
}

/// The turns, each the entries it is made of, and in `places` the turn of each.
fn cut(entries: &[Entry], places: &mut Places) -> Vec<Vec<usize>> {
    let mut followers = vec![0_usize; entries.len()];
    for (at, above) in places.above.iter().enumerate() {
        if let (Some(Some(_)), Some(above)) = (places.said.get(at), above)
            && let Some(count) = followers.get_mut(*above)
        {
            *count += 1;
        }
    }
    let kept: HashSet<usize> =
        (0..entries.len()).filter_map(|at| first_kept(entries, places, at)).collect();
    let leaf =
        entries.len().checked_sub(1).and_then(|last| places.spoken.get(last).copied().flatten());
    let mut turns: Vec<Vec<usize>> = Vec::new();
    for at in 0..entries.len() {
        let Some(Some(said)) = places.said.get(at) else { continue };
        let above = places.above.get(at).copied().flatten();
        let joined = above.and_then(|above| {
            let before = places.said.get(above)?.as_ref()?;
            let begins = said.is_compaction
                || before.is_compaction
                || followers.get(above).is_some_and(|count| *count > 1)
                || kept.contains(&at)
                || leaf == Some(above)
                || (said.message.role == Role::User && before.message.role != Role::User);
            if begins { None } else { places.turn.get(above).copied().flatten() }
        });
        let turn = joined.unwrap_or_else(|| {
            turns.push(Vec::new());
            turns.len() - 1
        });
        if let Some(entries) = turns.get_mut(turn) {
            entries.push(at);
        }
        if let Some(place) = places.turn.get_mut(at) {
            *place = Some(turn);
        }
    }
    turns
}

/// Where what a compaction keeps begins: the first entry that says something, at or after the one it names.
fn first_kept(entries: &[Entry], places: &Places, compaction: usize) -> Option<usize> {
    let entry = entries.get(compaction).filter(|entry| entry.kind() == "compaction")?;
    let named = entry.text("firstKeptEntryId")?;
    let (mut at, mut first) = (entry.parent, None);
    while let Some(place) = at {
        let entry = entries.get(place)?;
        if places.said.get(place).is_some_and(Option::is_some) {
            first = Some(place);
        }
        if entry.id == named {
            return first;
        }
        at = entry.parent;
    }
    None
}

/// The entries that say nothing, by the one they are kept with: before the first, or after the nearest above.
struct Notes {
    first: Vec<Value>,
    after: HashMap<usize, Vec<Value>>,
}

fn notes(session: &Session, places: &Places) -> Notes {
    let mut notes = Notes { first: Vec::new(), after: HashMap::new() };
    notes.first.extend(session.header.clone().map(Value::Object));
    for (at, entry) in session.entries.iter().enumerate() {
        if places.said.get(at).is_some_and(Option::is_none) {
            let raw = Value::Object(entry.raw.clone());
            match places.above.get(at).copied().flatten() {
                Some(above) => notes.after.entry(above).or_default().push(raw),
                None => notes.first.push(raw),
            }
        }
    }
    notes
}

struct Builder<'a> {
    entries: &'a [Entry],
    places: &'a Places,
    turns: &'a [Vec<usize>],
    ids: &'a [String],
    answered: HashSet<&'a str>,
    notes: Notes,
}

impl Builder<'_> {
    /// The turn above.
    fn parent(&self, at: usize) -> Option<usize> {
        let first = *self.turns.get(at)?.first()?;
        let above = self.places.above.get(first).copied().flatten()?;
        self.places.turn.get(above).copied().flatten()
    }

    fn turn(
        &self,
        at: usize,
        origin: &Origin<'_>,
        header: Option<&Map<String, Value>>,
        clock: &Clock,
    ) -> Option<(u64, TurnRecord)> {
        let members = self.turns.get(at)?;
        let line = self.entries.get(*members.first()?)?.line;
        let mut messages = Vec::with_capacity(members.len());
        let mut sums = Sums::default();
        for (sequence, place) in members.iter().enumerate() {
            let said = self.places.said.get(*place)?.as_ref()?;
            let before = if at == 0 && sequence == 0 { self.notes.first.as_slice() } else { &[] };
            let after = self.notes.after.get(place).map_or(&[][..], Vec::as_slice);
            let mut message = said.message.clone();
            message.sequence = u32::try_from(sequence).ok()?;
            sums.add(said);
            messages.push(MessageRecord {
                message,
                metadata_json: Some(metadata(said, before, after)),
            });
        }
        let first = &messages.first()?.message;
        let started_at = first.created_at;
        let last = messages.iter().map(|it| it.message.created_at).max().unwrap_or(started_at);
        let parent = self.parent(at);
        let id = self.ids.get(at)?.clone();
        let place = *members.first()?;
        let is_compaction = self.places.said.get(place)?.as_ref()?.is_compaction;
        let compaction = is_compaction.then(|| self.compaction(at, place, &id)).flatten();
        let (stop, status) = sums.ending();
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
                workspace_path: header
                    .and_then(|header| header.get("cwd")?.as_str())
                    .map(ToOwned::to_owned),
                stop_reason: Some(stop.to_owned()),
                error: sums.error(),
                attempts: Vec::new(),
                compaction,
                tool_calls: self.calls(&messages, clock),
                messages,
                id,
            },
        ))
    }

    /// What a compaction stands for. What it does not name, it does not keep.
    fn compaction(&self, at: usize, place: usize, id: &str) -> Option<CompactionResult> {
        let entry = self.entries.get(place)?;
        let turn_id = |turn: usize| self.ids.get(turn).cloned();
        let kept = first_kept(self.entries, self.places, place)
            .and_then(|kept| self.places.turn.get(kept).copied().flatten());
        let through = match kept {
            Some(kept) => self.parent(kept).and_then(turn_id),
            None => self.parent(at).and_then(turn_id),
        };
        let last = self.places.said.iter().take(place).rev().flatten();
        let from = last.filter_map(|said| said.message.provenance.as_ref()).next();
        let summary = entry.text("summary")?.to_owned();
        Some(CompactionResult {
            summarized_through_turn_id: through.unwrap_or_else(|| id.to_owned()),
            first_kept_turn_id: kept.and_then(turn_id).unwrap_or_else(|| id.to_owned()),
            turns_summarized: kept.unwrap_or(at) as u64,
            model: from.map_or_else(|| "unknown".to_owned(), |from| from.model.clone()),
            provider: from.map_or_else(|| "unknown".to_owned(), |from| from.provider.clone()),
            tokens_before: entry.raw.get("tokensBefore").and_then(Value::as_u64).unwrap_or(0),
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

    /// The calls of a turn with what came back. One that nothing in the file answers was cut off.
    fn calls(&self, messages: &[MessageRecord], clock: &Clock) -> Vec<AgentToolCall> {
        let mut calls: Vec<AgentToolCall> = Vec::new();
        for MessageRecord { message, .. } in messages {
            for block in &message.blocks {
                match block {
                    Block::ToolCall { id, name, arguments_json, .. } => {
                        let Ok(params) = RawValue::from_string(arguments_json.clone()) else {
                            continue;
                        };
                        let there = self.answered.contains(id.as_str());
                        calls.push(AgentToolCall {
                            id: id.clone(),
                            tool_name: name.clone(),
                            params,
                            result: None,
                            error: (!there).then(|| "interrupted".to_owned()),
                            status: if there {
                                ToolCallStatus::Completed
                            } else {
                                ToolCallStatus::Failed
                            },
                            started_at: message.created_at,
                            completed_at: None,
                            sequence: u32::try_from(calls.len()).unwrap_or(u32::MAX),
                            spawned_session_label: None,
                            call_id: clock.new_id(),
                            message_id: message.id.clone(),
                        });
                    }
                    Block::ToolResult { tool_call_id, is_error, .. } => {
                        let waiting = |call: &&mut AgentToolCall| {
                            call.id == *tool_call_id && call.completed_at.is_none()
                        };
                        if let Some(call) = calls.iter_mut().find(waiting) {
                            call.completed_at = Some(message.created_at);
                            let text = message.content();
                            if *is_error {
                                call.status = ToolCallStatus::Failed;
                                call.error = Some(text);
                            } else {
                                call.result =
                                    RawValue::from_string(Value::from(text).to_string()).ok();
                            }
                        }
                    }
                    Block::Text { .. }
                    | Block::Image { .. }
                    | Block::Thinking { .. }
                    | Block::RedactedThinking { .. }
                    | Block::Opaque { .. } => {}
                }
            }
        }
        calls
    }
}

fn ids_of(messages: &[MessageRecord], role: Role) -> Vec<String> {
    messages
        .iter()
        .filter(|message| message.message.role == role)
        .map(|message| message.message.id.clone())
        .collect()
}
