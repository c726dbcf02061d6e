//! The port through which the engine commits a turn and reads a session; the ledger implements it.
//!
//! It stands here because two rooms need it and neither may know the other (ARCHITECTURE.md). It must never name SQLite.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use super::{
    AgentError, AgentRole, AgentToolCall, AssembledContext, Attempt, CacheChain, CacheStep,
    CompactionResult, Expense, LiveRun, Message, OpenTurn, Recall, Recalled, ReplayClass, Role,
    RunNames, RunRegistration, RunWarning, SpentBy, StopReason, StorageError, StreamEvent,
    TokenUsage,
};

/// The status of a turn's row (docs/rules/turns-and-streams.md#turn-status).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnStatus {
    /// Running, or interrupted.
    Streaming,
    /// Ended by itself, or at a cap.
    Completed,
    /// Aborted.
    Aborted,
    /// Failed or timed out.
    Failed,
}

impl TurnStatus {
    /// The column's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
        }
    }

    /// The status a stop reason ends in.
    #[must_use]
    pub fn of(stop: StopReason) -> Self {
        match stop {
            StopReason::EndTurn | StopReason::MaxTokens | StopReason::ToolUse => Self::Completed,
            StopReason::Aborted => Self::Aborted,
            StopReason::Timeout | StopReason::Error => Self::Failed,
        }
    }
}

/// What kind of turn a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnType {
    /// A run.
    Normal,
    /// A summary of earlier turns.
    Compaction,
}

/// A turn as a later context needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryTurn {
    /// The turn's ULID.
    pub id: String,
    /// How it ended: aborted and failed turns are projected differently (docs/rules/turns-and-streams.md#interrupted-turns-in-context).
    pub status: TurnStatus,
    /// Whether a compaction came after it: what stood before it when it was said is no longer there (docs/rules/projection.md#thinking).
    pub edited: bool,
    /// So many of its messages were said before the compaction that it follows: one that its own run made.
    pub edited_messages: usize,
    /// Its messages in order.
    pub messages: Vec<Message>,
}

/// What [`SessionHistory::turns`] follows on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryBase {
    /// The turns are all that the context needs.
    Root,
    /// The turns are those after the head the caller already knows.
    Known,
}

/// A session's history, or what is new in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHistory {
    /// Whether the session exists.
    pub exists: bool,
    /// The newest turn; `None` for a session without one.
    pub head: Option<String>,
    /// What `turns` follows on.
    pub base: HistoryBase,
    /// Whether the first of `turns` is a compaction's summary.
    pub summarised: bool,
    /// The turns, oldest first.
    pub turns: Vec<HistoryTurn>,
}

/// A tool call with the ids the ledger keeps.
pub type ToolCallRecord = AgentToolCall;

/// What becomes of a turn whose session has moved on meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStaleHead {
    /// It is refused and nothing is written.
    Refuse,
    /// It is written beside the session's thread, and the receipt says so.
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
    /// The lease's epoch, where the turn was opened with [`Journal::begin`] or [`Journal::reopen`].
    pub epoch: Option<i64>,
    pub on_stale_head: OnStaleHead,
    /// The run's terminal event, kept in the same transaction where its events are. Its number is the ledger's to give.
    pub last_event: Option<StreamEvent>,
    /// What it leaves of the prompt cache.
    pub cache: Option<Box<CacheStep>>,
}

/// What a turn is besides what its context says.
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
    /// What a later [`Journal::reopen`] needs of its context: see [`AssembledContext::kept_json`].
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
    /// The turn that needed it: its parent is what the compaction follows, and its epoch says whether it is open.
    pub turn: TurnCommit,
    /// What was summarised and what is kept.
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

/// The answer of a [`Journal`], awaited off the JavaScript thread.
pub type JournalFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StorageError>> + Send + 'a>>;

/// Where turns are committed and read. Writes are handed over before their future is first polled: dropping it undoes
/// nothing, and writes take effect in the order they were asked for.
pub trait Journal: Send + Sync {
    /// The session's history. With `known` (a head the caller has already read), only what came after it, where that
    /// head is still an ancestor. With `at`, the history of that turn instead of the session's head. A turn that still
    /// runs is in none.
    fn history<'a>(
        &'a self,
        session_label: &'a str,
        at: Option<&'a str>,
        known: Option<&'a str>,
    ) -> JournalFuture<'a, SessionHistory>;

    /// The session's newest turn; `None` for a session without one, or for none.
    fn head<'a>(&'a self, session_label: &'a str) -> JournalFuture<'a, Option<String>>;

    /// The chain of the session's last call, where one is kept.
    fn cache_chain<'a>(
        &'a self,
        session_label: &'a str,
    ) -> JournalFuture<'a, Option<Box<CacheChain>>> {
        let _ = session_label;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The label of the session that a label or an alias names.
    fn session_named<'a>(&'a self, label: &'a str) -> JournalFuture<'a, String>;

    /// The profile that `provider` last answered a turn with; `None` where it did not, or had none.
    fn answered_with<'a>(
        &'a self,
        turn_id: &'a str,
        provider: &'a str,
    ) -> JournalFuture<'a, Option<String>>;

    /// The agent that a session is of; one that is not there yet, as it would be if its first turn followed `follows`.
    fn agent_of<'a>(
        &'a self,
        label: &'a str,
        follows: Option<&'a str>,
    ) -> JournalFuture<'a, String>;

    /// What the turns of a turn's, a session's or an agent's, or of everybody's since a time have come to, running ones
    /// included as far as they are written.
    fn spent(&self, by: SpentBy) -> JournalFuture<'static, Expense>;

    /// The messages of a session's own thread that its context no longer holds, by their words. None where the journal
    /// cannot search.
    fn recall(&self, asked: Recall) -> JournalFuture<'static, Recalled> {
        drop(asked);
        Box::pin(std::future::ready(Ok(Recalled::default())))
    }

    /// What tells this ledger from every other: handles of one file give the same.
    fn id(&self) -> String;

    /// What a run's result should warn of, of where it is written.
    fn warnings(&self) -> Vec<RunWarning> {
        Vec::new()
    }

    /// W0: leases the session and opens the turn in one transaction, or says why not and writes nothing. Leased, the
    /// epoch is the caller's until a commit with it, or [`Journal::release`].
    fn begin(&self, opening: Box<TurnOpening>) -> JournalFuture<'static, Opened<i64>>;

    /// W1 to W3.
    ///
    /// # Errors
    /// `stale_writer` where the lease is another's by now; any of storage. Nothing is written then.
    fn record(&self, step: Box<TurnStep>) -> JournalFuture<'static, ()>;

    /// Writes the compaction of `step`, which is the session's head from then on; its turn, where it is open, follows it.
    /// Nothing is written where that turn's lease is another's, or the session has moved on.
    ///
    /// # Errors
    /// `stale_writer`, `stale_head`, `unknown_turn`, any of storage.
    fn compact(&self, step: Box<CompactionStep>) -> JournalFuture<'static, ()>;

    /// W4: commits a finished turn, all or nothing, and gives its lease back.
    ///
    /// # Errors
    /// `stale_writer`, `stale_head` where that is to be refused, any of storage.
    fn commit(&self, turn: Box<TurnCommit>) -> JournalFuture<'static, CommitReceipt>;

    /// Gives a lease back that no commit gave back. Best effort: what is lost expires.
    fn release(&self, session_label: &str, epoch: i64);

    /// The turns that run nowhere and have not ended, oldest first; with `turn_id`, that one.
    fn interrupted(&self, turn_id: Option<&str>) -> JournalFuture<'static, Vec<OpenTurn>>;

    /// Leases the session of an interrupted turn and hands the turn over, as it stands.
    ///
    /// # Errors
    /// `unknown_turn` for one that is not open; any of storage.
    fn reopen(&self, turn_id: &str) -> JournalFuture<'static, Opened<Box<OpenTurn>>>;

    /// Makes a run that begins known to those who watch it and command it from elsewhere, and keeps its events. Nothing
    /// where the journal does neither.
    fn register(
        &self,
        names: RunNames,
        run: Weak<dyn LiveRun>,
    ) -> Option<Arc<dyn RunRegistration>> {
        let _ = (names, run);
        None
    }
}
