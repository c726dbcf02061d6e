//! What the commit points of a turn write: W0 to W4, and a compaction (docs/rules/sessions-and-ledger.md#commit-points).
//!
//! Plain data for [`crate::Journal`]. It must never hold a value that only one backend has.

use crate::{
    AgentError, AgentRole, AgentToolCall, Approval, AssembledContext, Attempt, CacheStep,
    CompactionResult, Message, MessageLayers, Metadata, ReplayClass, Role, StopReason,
    StorageError, StreamEvent, TokenUsage, TurnStatus,
};

/// A tool call with the ids that the ledger stores.
pub type ToolCallRecord = AgentToolCall;

/// How a turn is written whose session has continued meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStaleHead {
    /// It is refused and nothing is written.
    Refuse,
    /// It is written beside the session's thread, and the receipt shows it.
    Beside,
}

/// The position of a turn and what it belongs to: written alike by its opening, its end and a compaction.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields carry the broker interface's column names")]
pub struct TurnHeader {
    pub run_id: String,
    pub session_label: String,
    /// The parent turn; `None` for a root turn.
    pub parent_turn_id: Option<String>,
    /// The session's head when the run began, compared and set in the transaction; a session that did not exist is `None`.
    pub expected_head: Option<String>,
    pub started_at: i64,
    pub role: AgentRole,
    pub toolset_name: String,
    pub source_event_id: Option<String>,
    pub workspace_path: String,
}

impl TurnHeader {
    /// The header of a turn of `context`. It follows the parent that the context names, and expects no head.
    #[must_use]
    pub fn new(context: &AssembledContext, started_at: i64) -> Self {
        Self {
            run_id: context.run_id.clone(),
            session_label: context.session_label.clone(),
            parent_turn_id: context.parent_turn_id.clone(),
            expected_head: None,
            started_at,
            role: context.role,
            toolset_name: context.toolset_name.clone(),
            source_event_id: context.source_event_id.clone(),
            workspace_path: context.workspace_path.clone(),
        }
    }
}

/// The model of a run's turn, and what it may use.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields carry the broker interface's column names")]
pub struct TurnSettings {
    pub provider: String,
    pub model: String,
    pub tools_available: Vec<String>,
    /// JSON text.
    pub permissions_granted: String,
    /// The host's own data.
    pub metadata: Option<Metadata>,
    /// The layers of its current message.
    pub layers: Option<MessageLayers>,
}

impl TurnSettings {
    /// Those of `context`.
    #[must_use]
    pub fn new(context: &AssembledContext) -> Self {
        Self {
            provider: context.provider.clone(),
            model: context.model.clone(),
            tools_available: context.tools.iter().map(|tool| tool.name.clone()).collect(),
            permissions_granted: context.permissions_granted.get().to_owned(),
            metadata: context.metadata.clone(),
            layers: context
                .layers
                .clone()
                .map(|json| MessageLayers { message_id: context.current_message.id.clone(), json }),
        }
    }
}

/// W0: a turn that begins.
#[derive(Debug, Clone)]
pub struct TurnOpening {
    /// The turn's ULID.
    pub turn_id: String,
    /// Its position in the ledger.
    pub header: TurnHeader,
    /// Its model, and what it may use.
    pub settings: TurnSettings,
    /// The user's messages.
    pub messages: Vec<Message>,
    /// The part of its context that a later [`crate::Journal::reopen`] needs: see [`AssembledContext::stored_json`].
    pub context: String,
    /// Its delivery target: JSON.
    pub target: Option<String>,
    /// The messages of the session's queue that it takes: each was waiting.
    pub items: Vec<String>,
    /// The dropped messages that its note names: no other turn has named them.
    pub named: Vec<String>,
}

/// W4: a turn that ends (docs/rules/sessions-and-ledger.md#commit-points).
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields carry the broker interface's column names")]
pub struct TurnEnd {
    pub turn_id: String,
    pub header: TurnHeader,
    pub settings: TurnSettings,
    /// Whether the session's pointer moves (docs/rules/turns-and-streams.md#session-pointer).
    pub move_pointer: bool,
    pub status: TurnStatus,
    pub stop_reason: StopReason,
    pub completed_at: i64,
    pub usage: TokenUsage,
    pub usage_estimated: bool,
    pub context_tokens: Option<u64>,
    pub cost: Option<f64>,
    pub query_message_ids: Vec<String>,
    pub response_message_id: Option<String>,
    pub error: Option<AgentError>,
    pub attempts: Vec<Attempt>,
    /// The messages; of a turn that was opened, those that are not written yet.
    pub messages: Vec<Message>,
    /// The calls; of a turn that was opened, those that are not written as they are now.
    pub tool_calls: Vec<ToolCallRecord>,
    /// All calls of the turn.
    pub tool_call_count: usize,
    /// A compaction that another engine made for this turn, written before it.
    pub compaction: Option<CompactionResult>,
    /// The lease's epoch, where the turn was opened with [`crate::Journal::begin`] or [`crate::Journal::reopen`].
    pub epoch: Option<i64>,
    pub on_stale_head: OnStaleHead,
    /// The run's terminal event, stored in the same transaction as its events. The ledger numbers it.
    pub last_event: Option<StreamEvent>,
    /// The state of the prompt cache after it.
    pub cache: Option<Box<CacheStep>>,
    /// Set for a turn that may have taken messages of its session's queue.
    pub queue: Option<Box<QueueEnd>>,
    /// The permissions that its calls needed: a JSON array; `None` where none needed one.
    pub permissions_used: Option<String>,
    /// Whether calls of the turn have waited for a decision: approvals without one are cancelled.
    pub has_approvals: bool,
}

/// What becomes of the messages of a queue that a turn has taken, besides its own end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueEnd {
    /// The messages that it was to take; those that still wait share its end.
    pub items: Vec<String>,
    /// The offered messages that are in it.
    pub steered: Vec<String>,
    /// The layers of their contexts that are not written yet.
    pub layers: Vec<MessageLayers>,
    /// Whether a token was delivered, or a tool began.
    pub has_effect: bool,
    /// Whether its process has ended, and it was closed.
    pub is_interrupted: bool,
}

/// The ids of the user's messages among `all` messages of a turn.
#[must_use]
pub fn query_message_ids(all: &[Message]) -> Vec<String> {
    let queries = all.iter().filter(|message| message.role == Role::User);
    queries.map(|message| message.id.clone()).collect()
}

/// The id of the last answer among `all` messages of a turn.
#[must_use]
pub fn response_message_id(all: &[Message]) -> Option<String> {
    let answer = all.iter().rfind(|message| message.role == Role::Assistant)?;
    Some(answer.id.clone())
}

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitReceipt {
    /// The turn's ULID.
    pub turn_id: String,
    /// The session's head after the commit.
    pub head: Option<String>,
    /// Set where the session had moved on and the turn was written beside its thread.
    pub stale_head: Option<StorageError>,
}

/// The outcome of a request for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened<T> {
    /// The caller has its lease.
    Leased(T),
    /// Another process runs it.
    Busy,
    /// A turn of the session waits for an approval: this one.
    Parked(String),
    /// Its head is not the one that the caller has read; the caller reads it again.
    Moved,
}

/// A tool call as W1 to W3 write it.
#[derive(Debug, Clone)]
pub struct CallStep {
    /// The call as it is now.
    pub row: ToolCallRecord,
    /// What its tool declares; `None` for a tool that is not there.
    pub replay: Option<ReplayClass>,
    /// The hash of its canonical arguments, from W2 on: where it is set, the side effect may have begun.
    pub arguments_hash: Option<String>,
}

/// W1 to W3: what is new in a running turn.
#[derive(Debug, Clone)]
pub struct TurnStep {
    /// The turn.
    pub turn_id: String,
    /// Its session.
    pub session_label: String,
    /// The epoch of its lease.
    pub epoch: i64,
    /// Messages to add. One that is stored already stays as it is.
    pub messages: Vec<Message>,
    /// Calls to add or to change.
    pub calls: Vec<CallStep>,
    /// The run's counters so far, where they changed: JSON.
    pub progress: Option<String>,
    /// The offered messages of the session's queue that are among the messages.
    pub items: Vec<String>,
    /// The layers of the contexts of these.
    pub layers: Vec<MessageLayers>,
    /// The turn parks: its approvals are written, and its lease is released, in the same transaction.
    pub parking: Option<Box<Parking>>,
}

/// The calls with which a turn parks: it gives up its lease until somebody decides.
#[derive(Debug, Clone, Default)]
pub struct Parking {
    /// The approvals that are new.
    pub requested: Vec<Approval>,
    /// The ids of all approvals that the turn waits for.
    pub waits_for: Vec<String>,
    /// The events of the parking, without numbers.
    pub events: Vec<StreamEvent>,
}

/// A compaction, written as soon as it is made and not with the turn that needed it: it stays, however that turn ends.
#[derive(Debug, Clone)]
pub struct CompactionCommit {
    /// The ULID of the compaction's own turn.
    pub id: String,
    /// Its position: the parent is the turn that it follows.
    pub header: TurnHeader,
    /// The open turn that needed it, and follows it from then on; `None` where no turn is open.
    pub open_turn: Option<TurnLease>,
    /// When it is written: the session's pointer moves then.
    pub completed_at: i64,
    /// What was summarised and what was not.
    pub compaction: CompactionResult,
    /// What its calls used.
    pub usage: CompactionUsage,
}

/// An open turn under its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnLease {
    /// The turn.
    pub turn_id: String,
    /// The epoch of its session's lease.
    pub epoch: i64,
}

/// What the calls of a compaction used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompactionUsage {
    /// Their tokens.
    pub tokens: TokenUsage,
    /// Whether some of them are estimated.
    pub estimated: bool,
    /// US dollars; `None` where a price is unknown.
    pub cost: Option<f64>,
    /// The calls that are in no run's attempts.
    pub attempts: Vec<Attempt>,
}

impl CompactionUsage {
    /// That of a compaction without a call.
    #[must_use]
    pub fn free() -> Self {
        Self { cost: Some(0.0), ..Self::default() }
    }

    /// Both together.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        self.attempts.extend(other.attempts);
        Self {
            tokens: self.tokens.plus(other.tokens),
            estimated: self.estimated || other.estimated,
            cost: self.cost.zip(other.cost).map(|(one, other)| one + other),
            attempts: self.attempts,
        }
    }

    /// What is known of a compaction that another engine has made.
    #[must_use]
    pub fn of_result(compaction: &CompactionResult) -> Self {
        let (input, output) =
            (compaction.summarization_input_tokens, compaction.summarization_output_tokens);
        Self { tokens: TokenUsage::new(input, output, 0, 0, 0), ..Self::default() }
    }
}
