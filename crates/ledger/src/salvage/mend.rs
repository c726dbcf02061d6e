//! Consistent sessions and turns from the salvaged rows, with a problem for everything that does not fit.
//!
//! It must never invent content: a loss is reported, and the children of a lost turn are attached to the nearest remaining
//! turn.

use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;

use super::row::TableRow;
use super::tables::Tables;
use model::{
    AgentToolCall, Block, CompactionResult, Message, Role, TokenUsage, ToolCallStatus,
    TransferCode, TurnError,
};
use portable::{MessageRecord, Problems, Record, SessionRecord, TurnRecord};

/// The session for turns whose row is lost, so that their own session is unknown.
const ORPHANS: &str = "salvaged";

/// The records, parents before children.
pub(super) fn records(mut tables: Tables, problems: &mut Problems) -> Vec<Record> {
    for (turn, id) in &tables.damaged {
        let message =
            format!("message `{id}` of turn `{turn}` is not as it was written, and is lost");
        problems.add(None, TransferCode::Unreadable, message);
    }
    for lost in &tables.lost {
        problems.add(
            None,
            TransferCode::Unreadable,
            format!("{lost} is not as it was written, and is lost"),
        );
    }
    for altered in &tables.altered {
        let message =
            format!("{altered} is not as it was written, and was taken as it can be read");
        problems.add(None, TransferCode::Unreadable, message);
    }
    let mut turns: BTreeMap<String, TurnRecord> = BTreeMap::new();
    for (id, row) in std::mem::take(&mut tables.turns) {
        match turn(&id, &row, &mut tables, problems) {
            Some(turn) => {
                turns.insert(id, turn);
            }
            None => problems.add(
                None,
                TransferCode::Unreadable,
                format!("turn `{id}` is not as it was written, and is lost"),
            ),
        }
    }
    for (id, messages) in std::mem::take(&mut tables.messages) {
        let message =
            format!("the row of turn `{id}` is lost; its messages are in session `{ORPHANS}`");
        problems.add(None, TransferCode::Rebuilt, message);
        let calls = tables.calls.remove(&id).unwrap_or_default();
        turns.insert(id.clone(), orphaned_turn(id, messages, calls));
    }
    reattach(&mut turns, problems);
    let mut records: Vec<Record> = Vec::with_capacity(turns.len() + tables.sessions.len());
    for (label, mut session) in tables.sessions {
        session.metadata = tables.session_metadata.remove(&label);
        let log = tables.log.remove(&label).unwrap_or_default();
        let history = log.into_values().collect();
        records.push(Record::Session(Box::new(SessionRecord { session, history })));
    }
    let mut turns: Vec<TurnRecord> = turns.into_values().collect();
    turns.sort_by(|a, b| (a.depth, &a.id).cmp(&(b.depth, &b.id)));
    records.extend(turns.into_iter().map(|turn| Record::Turn(Box::new(turn))));
    records
}

/// Gives every turn a parent that exists, and the depth that follows from it.
fn reattach(turns: &mut BTreeMap<String, TurnRecord>, problems: &mut Problems) {
    let mut moved: HashMap<String, Option<String>> = HashMap::new();
    for (id, turn) in &*turns {
        let Some(parent) = &turn.parent_turn_id else { continue };
        let above = turns.get(parent);
        if above.is_some_and(|above| above.depth < turn.depth) {
            continue;
        }
        // Ids grow with time: the nearest turn is the session's last one before this one with a smaller depth.
        let nearest = turns
            .range(..id.clone())
            .rev()
            .find(|(_, other)| {
                other.session_label == turn.session_label && other.depth < turn.depth
            })
            .map(|(other, _)| other.clone());
        let to = nearest.as_deref().unwrap_or("no turn");
        problems.add(
            None,
            TransferCode::Reattached,
            format!("turn `{id}` followed `{parent}`, which is lost; it follows `{to}`"),
        );
        moved.insert(id.clone(), nearest);
    }
    for (id, parent) in moved {
        if let Some(turn) = turns.get_mut(&id) {
            turn.parent_turn_id = parent;
        }
    }
}

fn turn(
    id: &str,
    row: &TableRow,
    tables: &mut Tables,
    problems: &mut Problems,
) -> Option<TurnRecord> {
    let mut messages = in_order(tables.messages.remove(id).unwrap_or_default());
    let calls = tables.calls.remove(id).unwrap_or_default();
    let is_compaction = row.text("turn_type") == Some("compaction");
    let compaction = if is_compaction {
        Some(compaction(id, row, &mut messages, tables.compactions.remove(id), problems)?)
    } else {
        None
    };
    let status = row.owned("status")?;
    let ended = !matches!(status.as_str(), "pending" | "streaming");
    let started_at = row.integer("started_at")?;
    let exists = |id: &str, role| {
        messages.iter().any(|it: &MessageRecord| it.message.id == id && it.message.role == role)
    };
    let queries: Vec<String> = json(row.text("query_message_ids")).unwrap_or_default();
    let answer = row.owned("response_message_id");
    let lost = queries.iter().filter(|id| !exists(id, Role::User)).count()
        + usize::from(answer.as_ref().is_some_and(|id| !exists(id, Role::Assistant)));
    if ended && lost > 0 {
        let message = format!("turn `{id}` has lost {lost} of the messages that it names");
        problems.add(None, TransferCode::LostReference, message);
    }
    let counted = usize::try_from(row.count("tool_call_count")).unwrap_or(usize::MAX);
    let tool_calls: Vec<AgentToolCall> = calls_in_order(calls);
    if ended && tool_calls.len() < counted {
        let lost = counted - tool_calls.len();
        let message = format!("turn `{id}` has lost {lost} of its {counted} tool calls");
        problems.add(None, TransferCode::LostReference, message);
    }
    let error = match row.owned("error_kind") {
        Some(kind) => Some(TurnError {
            kind,
            message: row.owned("error_message").unwrap_or_default(),
            retryable: row.integer("error_retryable") == Some(1),
            code: row.owned("error_code"),
        }),
        None if !ended => Some(TurnError {
            kind: "unknown".to_owned(),
            message: "the turn was still open when its ledger was salvaged".to_owned(),
            retryable: true,
            code: Some("interrupted".to_owned()),
        }),
        None => None,
    };
    Some(TurnRecord {
        id: id.to_owned(),
        parent_turn_id: row.owned("parent_turn_id"),
        turn_type: row.owned("turn_type")?,
        status: if ended { status } else { "failed".to_owned() },
        session_label: row.owned("session_label")?,
        run_id: row.owned("run_id")?,
        depth: row.integer("depth")?,
        started_at,
        completed_at: Some(row.integer("completed_at").unwrap_or(started_at)),
        model: row.owned("model"),
        provider: row.owned("provider"),
        role: row.owned("role")?,
        toolset_name: row.owned("toolset_name"),
        tools_available: json(row.text("tools_available")).unwrap_or_default(),
        permissions_granted: json(row.text("permissions_granted")),
        permissions_used: json(row.text("permissions_used")),
        usage: TokenUsage {
            input_tokens: row.count("input_tokens"),
            output_tokens: row.count("output_tokens"),
            cached_input_tokens: row.count("cached_input_tokens"),
            cache_write_tokens: row.count("cache_write_tokens"),
            reasoning_tokens: row.count("reasoning_tokens"),
            total_tokens: row.count("total_tokens"),
        },
        usage_estimated: row.integer("usage_estimated") == Some(1),
        context_tokens: row.integer("context_tokens"),
        cost: row.real("cost"),
        query_message_ids: queries.iter().filter(|id| exists(id, Role::User)).cloned().collect(),
        response_message_id: answer.filter(|id| exists(id, Role::Assistant)),
        source_event_id: row.owned("source_event_id"),
        workspace_path: row.owned("workspace_path"),
        metadata: tables.turn_metadata.remove(id),
        stop_reason: Some(row.owned("stop_reason").unwrap_or_else(|| "error".to_owned())),
        error,
        attempts: json(row.text("attempts_json")).unwrap_or_default(),
        compaction,
        messages,
        tool_calls,
        approvals: Vec::new(),
    })
}

/// The fields of a compaction, and its message. Both contain the summary, so one can replace the other.
fn compaction(
    id: &str,
    row: &TableRow,
    messages: &mut Vec<MessageRecord>,
    found: Option<CompactionResult>,
    problems: &mut Problems,
) -> Option<CompactionResult> {
    match (found, messages.first()) {
        (Some(found), Some(_)) => Some(found),
        (Some(found), None) => {
            let message = Message {
                id: format!("{id}-summary"),
                role: Role::User,
                blocks: vec![Block::text(format!(
                    "[Previous conversation summary]:\n\n{}",
                    found.summary
                ))],
                sequence: 0,
                created_at: row.integer("started_at")?,
                provenance: None,
                provider_stop_reason: None,
            };
            messages.push(MessageRecord { message, metadata_json: None, layers: None });
            Some(found)
        }
        (None, Some(summary)) => {
            let message =
                format!("the row of compaction `{id}` is lost; the context has all its ancestors");
            problems.add(None, TransferCode::LostReference, message);
            Some(CompactionResult {
                summary: summary.message.content(),
                // A turn is not its own ancestor, so this id bounds no context.
                summarized_through_turn_id: id.to_owned(),
                first_kept_turn_id: id.to_owned(),
                turns_summarized: 0,
                model: row.owned("model").unwrap_or_default(),
                provider: row.owned("provider").unwrap_or_default(),
                tokens_before: 0,
                tokens_after: 0,
                summary_tokens: 0,
                summarization_input_tokens: 0,
                summarization_output_tokens: 0,
                duration_ms: 0,
                trigger: "context_limit".to_owned(),
                compaction_type: "summary".to_owned(),
            })
        }
        (None, None) => None,
    }
}

/// A turn whose row is lost and whose messages remain.
fn orphaned_turn(
    id: String,
    messages: BTreeMap<String, MessageRecord>,
    calls: BTreeMap<String, TableRow>,
) -> TurnRecord {
    let messages = in_order(messages);
    let of = |role| {
        messages.iter().filter(move |it| it.message.role == role).map(|it| it.message.id.clone())
    };
    let at = |it: Option<&MessageRecord>| it.map_or(0, |it| it.message.created_at);
    let from = messages.iter().rev().find_map(|it| it.message.provenance.as_ref());
    TurnRecord {
        id,
        parent_turn_id: None,
        turn_type: "normal".to_owned(),
        status: "completed".to_owned(),
        session_label: ORPHANS.to_owned(),
        run_id: ORPHANS.to_owned(),
        depth: 0,
        started_at: at(messages.first()),
        completed_at: Some(at(messages.last())),
        model: from.map(|from| from.model.clone()),
        provider: from.map(|from| from.provider.clone()),
        role: "unified".to_owned(),
        toolset_name: None,
        tools_available: Vec::new(),
        permissions_granted: None,
        permissions_used: None,
        usage: TokenUsage::default(),
        usage_estimated: true,
        context_tokens: None,
        cost: None,
        query_message_ids: of(Role::User).collect(),
        response_message_id: of(Role::Assistant).next_back(),
        source_event_id: None,
        metadata: None,
        workspace_path: None,
        stop_reason: Some("end_turn".to_owned()),
        error: None,
        attempts: Vec::new(),
        compaction: None,
        tool_calls: calls_in_order(calls),
        approvals: Vec::new(),
        messages,
    }
}

fn in_order(messages: BTreeMap<String, MessageRecord>) -> Vec<MessageRecord> {
    let mut messages: Vec<MessageRecord> = messages.into_values().collect();
    messages.sort_by_key(|message| message.message.sequence);
    messages
}

fn calls_in_order(calls: BTreeMap<String, TableRow>) -> Vec<AgentToolCall> {
    let mut calls: Vec<AgentToolCall> =
        calls.into_iter().filter_map(|(id, row)| call(id, &row)).collect();
    calls.sort_by_key(|call| call.sequence);
    calls
}

fn call(id: String, row: &TableRow) -> Option<AgentToolCall> {
    let (status, error) = match row.text("status")? {
        "completed" => (ToolCallStatus::Completed, row.owned("error")),
        "failed" => (ToolCallStatus::Failed, row.owned("error")),
        // The call will not be continued.
        _ => (ToolCallStatus::Failed, Some("interrupted".to_owned())),
    };
    Some(AgentToolCall {
        id: row.owned("provider_call_id")?,
        tool_name: row.owned("tool_name")?,
        params: json::<Box<RawValue>>(row.text("params_json"))?,
        result: json(row.text("result_json")),
        error,
        status,
        started_at: row.integer("started_at")?,
        completed_at: row.integer("completed_at"),
        sequence: u32::try_from(row.integer("sequence")?).ok()?,
        spawned_session_label: row.owned("spawned_session_label"),
        call_id: id,
        message_id: row.owned("message_id").unwrap_or_default(),
    })
}

fn json<T: serde::de::DeserializeOwned>(text: Option<&str>) -> Option<T> {
    serde_json::from_str(text?).ok()
}
