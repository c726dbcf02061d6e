//! Tests of the ledger through its handle: what the host and the engine see.
//!
//! They must never sleep or measure time.

mod blobs;
mod cache;
mod commit;
mod drafts;
mod events;
mod file;
mod guard;
mod history;
mod journal;
mod lease;
mod migration;
mod naming;
mod oracle;
mod plans;
mod profiles;
mod query;
mod reading;
mod recall;
mod search;
mod writer;

use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Ledger, LedgerOptions, Synchronous};
use base::clock::Clock;
use model::{
    AgentRole, Attempt, Block, CallPurpose, CommitReceipt, Journal, Message, OnStaleHead,
    Provenance, Role, StopReason, StorageError, TokenUsage, ToolCallRecord, ToolCallStatus,
    TurnCommit, TurnStatus,
};

pub(super) const NOW: i64 = 1_780_000_000_000;

/// A ledger in a folder of its own.
pub(super) struct Fixture {
    pub(super) ledger: Arc<Ledger>,
    pub(super) folder: tempfile::TempDir,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ledger = open(&folder.path().join("ledger.db")).unwrap();
        Self { ledger, folder }
    }

    pub(super) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("ledger.db")
    }

    pub(super) async fn commit(&self, turn: TurnCommit) -> Result<CommitReceipt, StorageError> {
        self.ledger.commit(Box::new(turn)).await
    }

    /// The rows of a query as one JSON text.
    pub(super) async fn rows(&self, sql: &str) -> String {
        let result =
            self.ledger.query(sql.to_owned(), "[]".to_owned(), model::QueryLimits::default()).await;
        serde_json::to_string(&result.unwrap().rows).unwrap()
    }

    /// How many rows each table has: turns, messages, tool calls, sessions, history.
    pub(super) async fn counts(&self) -> String {
        self.rows(
            "SELECT (SELECT count(*) FROM turns) AS turns, (SELECT count(*) FROM messages) AS messages,
               (SELECT count(*) FROM tool_calls) AS calls, (SELECT count(*) FROM sessions) AS sessions,
               (SELECT count(*) FROM session_history) AS moves",
        )
        .await
    }
}

pub(super) fn open(path: &Path) -> Result<Arc<Ledger>, StorageError> {
    let options = LedgerOptions::at(path.to_owned());
    Ledger::open(&options, Clock::fixed(NOW))
}

/// A connection to nothing, for what needs one.
#[expect(clippy::disallowed_methods, reason = "it opens no file")]
pub(super) fn memory() -> rusqlite::Connection {
    rusqlite::Connection::open_in_memory().unwrap()
}

/// A text that nothing makes smaller, the same each time.
pub(super) fn noise(characters: u32) -> String {
    let mut state = 1_u64;
    (0..characters)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from_u32(0x4e00 + (state >> 40) as u32 % 0x3000).unwrap()
        })
        .collect()
}

pub(super) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

pub(super) fn message(id: &str, role: Role, sequence: u32, blocks: Vec<Block>) -> Message {
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

/// A turn of four messages and one tool call, after `parent`, which is also the head it expects.
pub(super) fn turn(id: &str, label: &str, parent: Option<&str>) -> TurnCommit {
    let provenance = Some(Provenance {
        provider: "anthropic".to_owned(),
        api: "anthropic-messages".to_owned(),
        model: "claude".to_owned(),
        response_id: Some(format!("resp-{id}")),
    });
    let mut asks = message(
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
    asks.provenance.clone_from(&provenance);
    asks.provider_stop_reason = Some("tool_use".to_owned());
    let mut answers =
        message(&format!("{id}-m3"), Role::Assistant, 3, vec![Block::text(format!("done {id}"))]);
    answers.provenance = provenance;
    answers.provider_stop_reason = Some("end_turn".to_owned());
    let result = Block::ToolResult {
        tool_call_id: "call_0".to_owned(),
        tool_name: "read".to_owned(),
        content: vec![Block::text("content of a")],
        is_error: false,
    };
    TurnCommit {
        turn_id: id.to_owned(),
        run_id: format!("run-{id}"),
        session_label: label.to_owned(),
        parent_turn_id: parent.map(ToOwned::to_owned),
        expected_head: parent.map(ToOwned::to_owned),
        move_pointer: true,
        status: TurnStatus::Completed,
        stop_reason: StopReason::EndTurn,
        started_at: NOW,
        completed_at: NOW + 10,
        provider: "anthropic".to_owned(),
        model: "claude".to_owned(),
        role: AgentRole::Unified,
        toolset_name: "full".to_owned(),
        tools_available: vec!["read".to_owned()],
        permissions_granted: r#"[{"fs": "read"}]"#.to_owned(),
        usage: TokenUsage::new(100, 20, 3, 4, 5),
        usage_estimated: false,
        context_tokens: Some(127),
        cost: Some(0.25),
        query_message_ids: vec![format!("{id}-m0")],
        response_message_id: Some(format!("{id}-m3")),
        source_event_id: Some("event".to_owned()),
        workspace_path: "/work".to_owned(),
        error: None,
        attempts: vec![Attempt {
            purpose: CallPurpose::Run,
            usage_estimated: false,
            held_ms: None,
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
            asks,
            message(&format!("{id}-m2"), Role::Tool, 2, vec![result]),
            answers,
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
    }
}

/// A turn of one question and one answer.
pub(super) fn short_turn(id: &str, label: &str, parent: Option<&str>) -> TurnCommit {
    let mut short = turn(id, label, parent);
    short.tool_calls.clear();
    short.tool_call_count = 0;
    short.messages.drain(1..3);
    short
}
