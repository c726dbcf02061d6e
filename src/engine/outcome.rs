//! What a finished machine comes to: the result for the host and the commit for the ledger, from the same facts.
//!
//! It must never decide anything: the machine has.

use model::{
    AgentMessage, AgentResult, AssembledContext, Attempt, CacheBreak, CompactionResult,
    OnStaleHead, PersistError, Role, RunWarning, StopReason, StorageError, TokenBudget, TokenUsage,
    TurnCommit, TurnFacts, TurnStatus,
};
use turn::machine::{Machine, Outcome};

/// The facts of an ended run that the machine does not hold.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) turn_id: String,
    pub(crate) duration_ms: u64,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) cost: Option<f64>,
    /// Tokens that the machine has not seen, and whether some of them are estimated.
    pub(crate) unseen: (TokenUsage, bool),
    pub(crate) undelivered_steering: Vec<String>,
    pub(crate) warnings: Vec<RunWarning>,
    pub(crate) compaction: Option<CompactionResult>,
    pub(crate) token_budget: Option<TokenBudget>,
    pub(crate) cache_breaks: Vec<CacheBreak>,
}

/// Where the turn of an ended run belongs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub(crate) parent_turn_id: Option<String>,
    pub(crate) expected_head: Option<String>,
    /// False for a run that ended before its session was its own: it moves no pointer.
    pub(crate) began: bool,
    pub(crate) started_at: i64,
    pub(crate) completed_at: i64,
}

/// The commit of a turn that has ended. What of its messages and calls is written is the caller's to fill in.
pub(crate) fn commit(
    context: &AssembledContext,
    machine: &Machine,
    outcome: &Outcome,
    ended: &Ended,
    place: Place,
) -> TurnCommit {
    let (usage, usage_estimated, context_tokens) = used(machine, ended.unseen);
    let facts = TurnFacts {
        turn_id: ended.turn_id.clone(),
        parent_turn_id: place.parent_turn_id,
        expected_head: place.expected_head,
        move_pointer: place.began && machine.moves_pointer(),
        status: TurnStatus::of(outcome.stop_reason),
        stop_reason: outcome.stop_reason,
        started_at: place.started_at,
        completed_at: place.completed_at,
        usage,
        usage_estimated,
        context_tokens,
        cost: ended.cost,
        error: outcome.error.clone(),
        attempts: ended.attempts.clone(),
        // It was written when it was there: see `compaction`.
        compaction: None,
    };
    let commit = TurnCommit::new(context, facts, machine.messages(), machine.calls().count());
    TurnCommit { on_stale_head: OnStaleHead::Beside, ..commit }
}

/// The result of an ended run.
pub(crate) fn result(
    context: &AssembledContext,
    machine: Machine,
    outcome: Outcome,
    ended: Ended,
) -> AgentResult {
    let (usage, usage_estimated, context_tokens) = used(&machine, ended.unseen);
    let (messages, tool_calls) = machine.into_parts();
    let blocks = messages
        .iter()
        .rfind(|message| message.role == Role::Assistant)
        .map(|message| message.blocks.clone())
        .unwrap_or_default();
    AgentResult {
        turn_id: ended.turn_id,
        run_id: context.run_id.clone(),
        messages: messages.into_iter().map(AgentMessage::from).collect(),
        blocks,
        tool_calls,
        usage,
        usage_estimated,
        context_tokens,
        cost: ended.cost,
        stop_reason: outcome.stop_reason,
        duration_ms: ended.duration_ms,
        error: outcome.error,
        compaction: ended.compaction,
        persisted: false,
        persist_error: None,
        attempts: ended.attempts,
        undelivered_steering: ended.undelivered_steering,
        token_budget: ended.token_budget,
        warnings: ended.warnings,
        cache_breaks: ended.cache_breaks,
    }
}

/// The sum over the run's calls, whether some of it is estimated, and the context's size after the last one.
fn used(machine: &Machine, unseen: (TokenUsage, bool)) -> (TokenUsage, bool, Option<u64>) {
    let (usage, estimated, context_tokens) = machine.usage();
    (usage.plus(unseen.0), estimated || unseen.1, context_tokens)
}

/// The public face of a commit that failed.
pub(crate) fn persist_error(error: &StorageError) -> PersistError {
    PersistError { code: error.kind.code().to_owned(), message: error.message.clone() }
}

/// The event that ends the stream: an error for `error` and `timeout`, else the final end (docs/rules/turns-and-streams.md#turn-status).
pub(crate) fn is_failure(stop: StopReason) -> bool {
    match stop {
        StopReason::Timeout | StopReason::Error => true,
        StopReason::EndTurn | StopReason::MaxTokens | StopReason::ToolUse | StopReason::Aborted => {
            false
        }
    }
}

/// One line about a tool's outcome for `tool_status`, at most 200 characters.
pub(crate) fn summary(text: &str) -> Option<String> {
    let line = text.lines().find(|line| !line.trim().is_empty())?.trim();
    Some(line.chars().take(200).collect())
}

/// Milliseconds of a duration.
pub(crate) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
