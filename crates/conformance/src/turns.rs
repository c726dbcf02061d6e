//! The turns that the cases write, at once or by commit points.
//!
//! Their times must never be read from a clock: they are [`NOW`] plus a few milliseconds, to which a store's clock is set.

use model::{
    AgentRole, Attempt, Block, CallPurpose, CallStep, CompactionCommit, CompactionResult,
    CompactionUsage, LedgerPorts, Message, OnStaleHead, Opened, Provenance, ReplayClass, Role,
    StopReason, TokenUsage, ToolCallRecord, ToolCallStatus, TurnEnd, TurnHeader, TurnLease,
    TurnOpening, TurnSettings, TurnStatus, TurnStep,
};
use serde_json::value::RawValue;

/// The time of a store's clock: Unix milliseconds.
pub const NOW: i64 = 1_780_000_000_000;

/// An incompressible text, the same for each call.
pub fn noise(characters: u32) -> String {
    let mut state = 1_u64;
    (0..characters)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from_u32(0x4e00 + (state >> 40) as u32 % 0x3000).unwrap()
        })
        .collect()
}

/// JSON text, unchanged.
pub fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// A message with this id.
pub fn message(id: &str, role: Role, sequence: u32, blocks: Vec<Block>) -> Message {
    Message {
        id: id.to_owned(),
        role,
        blocks,
        sequence,
        created_at: NOW + i64::from(sequence),
        provenance: None,
        provider_stop_reason: None,
    }
}

/// A turn of four messages and one tool call, after `parent`, which is also its expected head.
pub fn turn(id: &str, label: &str, parent: Option<&str>) -> TurnEnd {
    let provenance = Some(Provenance {
        provider: "anthropic".to_owned(),
        api: "anthropic-messages".to_owned(),
        model: "claude".to_owned(),
        response_id: Some(format!("resp-{id}")),
    });
    let mut request = message(
        &format!("{id}-m1"),
        Role::Assistant,
        1,
        vec![
            Block::Thinking {
                thinking: "hm".to_owned(),
                signature: Some("c2ln".to_owned()),
                provider_data: None,
            },
            Block::text("I look."),
            Block::ToolCall {
                id: "call_0".to_owned(),
                name: "read".to_owned(),
                arguments_json: r#"{"path": "a"}"#.to_owned(),
                incomplete: false,
                provider_data: None,
            },
        ],
    );
    request.provenance.clone_from(&provenance);
    request.provider_stop_reason = Some("tool_use".to_owned());
    let mut answer =
        message(&format!("{id}-m3"), Role::Assistant, 3, vec![Block::text(format!("done {id}"))]);
    answer.provenance = provenance;
    answer.provider_stop_reason = Some("end_turn".to_owned());
    let result = Block::ToolResult {
        tool_call_id: "call_0".to_owned(),
        tool_name: "read".to_owned(),
        content: vec![Block::text("content of a")],
        is_error: false,
    };
    TurnEnd {
        turn_id: id.to_owned(),
        header: TurnHeader {
            run_id: format!("run-{id}"),
            session_label: label.to_owned(),
            parent_turn_id: parent.map(ToOwned::to_owned),
            expected_head: parent.map(ToOwned::to_owned),
            started_at: NOW,
            role: AgentRole::Unified,
            toolset_name: "full".to_owned(),
            source_event_id: Some("event".to_owned()),
            workspace_path: "/work".to_owned(),
        },
        settings: TurnSettings {
            provider: "anthropic".to_owned(),
            model: "claude".to_owned(),
            tools_available: vec!["read".to_owned()],
            permissions_granted: r#"[{"fs": "read"}]"#.to_owned(),
            metadata: None,
            layers: None,
        },
        move_pointer: true,
        status: TurnStatus::Completed,
        stop_reason: StopReason::EndTurn,
        completed_at: NOW + 10,
        usage: TokenUsage::new(100, 20, 3, 4, 5),
        usage_estimated: false,
        context_tokens: Some(127),
        cost: Some(0.25),
        query_message_ids: vec![format!("{id}-m0")],
        response_message_id: Some(format!("{id}-m3")),
        error: None,
        attempts: vec![Attempt {
            purpose: CallPurpose::Run,
            usage_estimated: false,
            held_ms: None,
            plan: None,
            provider: "anthropic".to_owned(),
            model: "claude".to_owned(),
            profile_id: None,
            ok: true,
            status: Some(200),
            reason: None,
            ms: 12,
            usage: Some(TokenUsage::new(100, 20, 3, 4, 5)),
            cost: Some(0.25),
        }],
        messages: vec![
            message(&format!("{id}-m0"), Role::User, 0, vec![Block::text(format!("ask {id}"))]),
            request,
            message(&format!("{id}-m2"), Role::Tool, 2, vec![result]),
            answer,
        ],
        tool_calls: vec![ToolCallRecord {
            id: "call_0".to_owned(),
            tool_name: "read".to_owned(),
            params: raw(r#"{"path":"a"}"#),
            result: Some(raw(r#""content of a""#)),
            error: None,
            status: ToolCallStatus::Completed,
            started_at: NOW + 1,
            completed_at: Some(NOW + 2),
            sequence: 0,
            spawned_session_label: None,
            call_id: format!("{id}-c0"),
            message_id: format!("{id}-m1"),
        }],
        tool_call_count: 1,
        compaction: None,
        epoch: None,
        on_stale_head: OnStaleHead::Refuse,
        last_event: None,
        cache: None,
        queue: None,
        permissions_used: None,
        has_approvals: false,
    }
}

/// A turn of one question and one answer.
pub fn short_turn(id: &str, label: &str, parent: Option<&str>) -> TurnEnd {
    let mut short = turn(id, label, parent);
    short.tool_calls.clear();
    short.tool_call_count = 0;
    short.messages.drain(1..3);
    short
}

/// W0 of `turn`: its first message, without the values of its end.
pub fn opening(turn: &TurnEnd) -> Box<TurnOpening> {
    Box::new(TurnOpening {
        turn_id: turn.turn_id.clone(),
        header: turn.header.clone(),
        settings: turn.settings.clone(),
        messages: turn.messages[..1].to_vec(),
        context: r#"{"systemPrompt":"s","maxIterations":25}"#.to_owned(),
        target: Some(r#"{"to":1}"#.to_owned()),
        items: Vec::new(),
        named: Vec::new(),
    })
}

/// Opens `turn` in a free session, and returns its epoch.
pub async fn begin(ledger: &LedgerPorts, turn: &TurnEnd) -> i64 {
    match ledger.journal.begin(opening(turn)).await.unwrap() {
        Opened::Leased(epoch) => epoch,
        other => panic!("{other:?}"),
    }
}

/// Ends `turn` without a commit.
pub fn release(ledger: &LedgerPorts, turn: &TurnEnd, epoch: i64) {
    let lease = TurnLease { turn_id: turn.turn_id.clone(), epoch };
    ledger.journal.release(&turn.header.session_label, &lease);
}

/// A step of `turn`: a range of its messages, and its call with this status.
pub fn step(
    turn: &TurnEnd,
    epoch: i64,
    messages: std::ops::Range<usize>,
    status: ToolCallStatus,
) -> Box<TurnStep> {
    let mut row = turn.tool_calls[0].clone();
    row.status = status;
    let ended = matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
    if !ended {
        (row.result, row.completed_at) = (None, None);
    }
    Box::new(TurnStep {
        turn_id: turn.turn_id.clone(),
        session_label: turn.header.session_label.clone(),
        epoch,
        messages: turn.messages[messages].to_vec(),
        calls: vec![CallStep {
            row,
            replay: Some(ReplayClass::Idempotent),
            arguments_hash: (status != ToolCallStatus::Pending).then(|| "hash".to_owned()),
        }],
        progress: Some(r#"{"iterations":1}"#.to_owned()),
        items: Vec::new(),
        layers: Vec::new(),
        parking: None,
    })
}

/// W4 of `turn`, with the messages that are not written yet.
pub fn ending(turn: &TurnEnd, epoch: i64, written: usize) -> Box<TurnEnd> {
    let mut ended = turn.clone();
    ended.messages.drain(..written);
    ended.tool_calls.clear();
    ended.epoch = Some(epoch);
    ended.on_stale_head = OnStaleHead::Beside;
    Box::new(ended)
}

/// A compaction of all turns up to `through`; `retained` is the first retained turn.
pub fn compaction(through: &str, retained: &str) -> CompactionResult {
    CompactionResult {
        summary: "what was said".to_owned(),
        summarized_through_turn_id: through.to_owned(),
        first_kept_turn_id: retained.to_owned(),
        turns_summarized: 1,
        model: "small".to_owned(),
        provider: "anthropic".to_owned(),
        tokens_before: 1_000,
        tokens_after: 300,
        summary_tokens: 50,
        summarization_input_tokens: 700,
        summarization_output_tokens: 50,
        duration_ms: 3,
        trigger: "context_limit".to_owned(),
        compaction_type: "summary".to_owned(),
    }
}

/// The commit of a compaction at the position of `turn`; under its lease if `epoch` is that of the open turn.
pub fn compacting(
    id: &str,
    turn: &TurnEnd,
    epoch: Option<i64>,
    compaction: CompactionResult,
) -> Box<CompactionCommit> {
    Box::new(CompactionCommit {
        id: id.to_owned(),
        header: turn.header.clone(),
        open_turn: epoch.map(|epoch| TurnLease { turn_id: turn.turn_id.clone(), epoch }),
        completed_at: turn.completed_at,
        usage: CompactionUsage::of_result(&compaction),
        compaction,
    })
}
