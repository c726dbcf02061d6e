//! What the commit points of a turn write: W0 to W4, and a compaction (docs/rules/sessions-and-ledger.md#commit-points).
//!
//! Plain data for [`crate::Journal`]. It must never hold a value that only one backend has.

use crate::{
    AgentError, AgentRole, AgentToolCall, AssembledContext, Attempt, CacheStep, CompactionResult,
    Message, ReplayClass, Role, StopReason, StorageError, StreamEvent, TokenUsage, TurnStatus,
};

/// A tool call with the ids that the ledger stores.
pub type ToolCallRecord = AgentToolCall;

/// What becomes of a turn whose session has moved on meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStaleHead {
    /// It is refused and nothing is written.
    Refuse,
    /// It is written beside the session's thread, and the receipt shows it.
    Beside,
}

/// A turn as one transaction knows it: whole at its end (W4, docs/rules/sessions-and-ledger.md#commit-points), its beginning at W0.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields carry the broker interface's column names")]
pub struct TurnCommit {
    pub turn_id: String,
    pub run_id: String,
    pub session_label: String,
    /// The parent turn; `None` for a root turn.
    pub parent_turn_id: Option<String>,
    /// The session's head when the run began, compared and set in the transaction; a session that did not exist is `None`.
    pub expected_head: Option<String>,
    /// Whether the session's pointer moves (docs/rules/turns-and-streams.md#session-pointer).
    pub move_pointer: bool,
    pub status: TurnStatus,
    pub stop_reason: StopReason,
    pub started_at: i64,
    pub completed_at: i64,
    pub provider: String,
    pub model: String,
    pub role: AgentRole,
    pub toolset_name: String,
    pub tools_available: Vec<String>,
    /// JSON text.
    pub permissions_granted: String,
    pub usage: TokenUsage,
    pub usage_estimated: bool,
    pub context_tokens: Option<u64>,
    pub cost: Option<f64>,
    pub query_message_ids: Vec<String>,
    pub response_message_id: Option<String>,
    pub source_event_id: Option<String>,
    pub workspace_path: String,
    pub error: Option<AgentError>,
    pub attempts: Vec<Attempt>,
    /// The messages; of a turn that was opened, those that are not written yet.
    pub messages: Vec<Message>,
    /// The calls; of a turn that was opened, those that are not written as they are now.
    pub tool_calls: Vec<ToolCallRecord>,
    /// All calls of the turn.
    pub tool_call_count: usize,
    pub compaction: Option<CompactionResult>,
    /// The lease's epoch, where the turn was opened with [`crate::Journal::begin`] or [`crate::Journal::reopen`].
    pub epoch: Option<i64>,
    pub on_stale_head: OnStaleHead,
    /// The run's terminal event, stored in the same transaction as its events. Its number is the ledger's to give.
    pub last_event: Option<StreamEvent>,
    /// What it leaves of the prompt cache.
    pub cache: Option<Box<CacheStep>>,
}

/// What a turn is besides its context.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields are those of `TurnCommit`")]
pub struct TurnFacts {
    pub turn_id: String,
    pub parent_turn_id: Option<String>,
    pub expected_head: Option<String>,
    pub move_pointer: bool,
    pub status: TurnStatus,
    pub stop_reason: StopReason,
    pub started_at: i64,
    pub completed_at: i64,
    pub usage: TokenUsage,
    pub usage_estimated: bool,
    pub context_tokens: Option<u64>,
    pub cost: Option<f64>,
    pub error: Option<AgentError>,
    pub attempts: Vec<Attempt>,
    pub compaction: Option<CompactionResult>,
}

impl TurnCommit {
    /// The turn of `context` with these facts and so many calls, of which `all` are the messages. What of them is to be
    /// written is the caller's to fill in. It is not open, and never lands on a head it did not expect.
    #[must_use]
    pub fn new(
        context: &AssembledContext,
        facts: TurnFacts,
        all: &[Message],
        tool_call_count: usize,
    ) -> Self {
        Self {
            turn_id: facts.turn_id,
            run_id: context.run_id.clone(),
            session_label: context.session_label.clone(),
            parent_turn_id: facts.parent_turn_id,
            expected_head: facts.expected_head,
            move_pointer: facts.move_pointer,
            status: facts.status,
            stop_reason: facts.stop_reason,
            started_at: facts.started_at,
            completed_at: facts.completed_at,
            provider: context.provider.clone(),
            model: context.model.clone(),
            role: context.role,
            toolset_name: context.toolset_name.clone(),
            tools_available: context.tools.iter().map(|tool| tool.name.clone()).collect(),
            permissions_granted: context.permissions_granted.get().to_owned(),
            usage: facts.usage,
            usage_estimated: facts.usage_estimated,
            context_tokens: facts.context_tokens,
            cost: facts.cost,
            query_message_ids: all
                .iter()
                .filter(|message| message.role == Role::User)
                .map(|message| message.id.clone())
                .collect(),
            response_message_id: all
                .iter()
                .rfind(|message| message.role == Role::Assistant)
                .map(|message| message.id.clone()),
            source_event_id: context.source_event_id.clone(),
            workspace_path: context.workspace_path.clone(),
            error: facts.error,
            attempts: facts.attempts,
            messages: Vec::new(),
            tool_calls: Vec::new(),
            tool_call_count,
            compaction: facts.compaction,
            epoch: None,
            on_stale_head: OnStaleHead::Refuse,
            last_event: None,
            cache: None,
        }
    }
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

/// W0: a turn that begins.
#[derive(Debug, Clone)]
pub struct TurnOpening {
    /// The turn as it stands: status `streaming`, and the messages that ask.
    pub turn: TurnCommit,
    /// What a later [`crate::Journal::reopen`] needs of its context: see [`AssembledContext::kept_json`].
    pub context: String,
    /// Where its answer goes: JSON.
    pub target: Option<String>,
}

/// What came of asking for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened<T> {
    /// It is the caller's.
    Leased(T),
    /// Another process runs it.
    Busy,
    /// Its head is not the one the caller read: read it again.
    Moved,
}

/// A tool call as W1 to W3 write it.
#[derive(Debug, Clone)]
pub struct CallStep {
    /// The call as it stands.
    pub row: ToolCallRecord,
    /// What its tool declares; `None` for a tool that is not there.
    pub replay: Option<ReplayClass>,
    /// The hash of its canonical arguments, from W2 on: where it is there, the side effect may have begun.
    pub arguments_hash: Option<String>,
}

/// W1 to W3: what of a running turn is new.
#[derive(Debug, Clone)]
pub struct TurnStep {
    /// The turn.
    pub turn_id: String,
    /// Its session.
    pub session_label: String,
    /// The epoch of its lease.
    pub epoch: i64,
    /// Messages to add. One that is there already is left as it is.
    pub messages: Vec<Message>,
    /// Calls to add or to change.
    pub calls: Vec<CallStep>,
    /// What the run has counted so far, where that changed: JSON.
    pub progress: Option<String>,
}

/// A compaction, written when it is there and not with the turn that needed it: it stays whatever becomes of that turn.
#[derive(Debug, Clone)]
pub struct CompactionStep {
    /// The ULID of the compaction's own turn.
    pub id: String,
    /// The turn that needed it: its parent is what the compaction follows, and its epoch shows whether it is open.
    pub turn: TurnCommit,
    /// What was summarised and what was not.
    pub compaction: CompactionResult,
    /// What its calls came to.
    pub usage: CompactionUsage,
}

/// What the calls of a compaction came to.
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
    /// That of a compaction that asked nobody.
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
