//! The end of a turn: builds the result for the host and the commit for the ledger from the same facts.
//!
//! It must never decide anything: the machine has decided.

use serde_json::value::RawValue;

use model::{
    AgentMessage, AgentResult, AssembledContext, Attempt, CacheBreak, CompactionResult,
    OnStaleHead, PersistError, Role, RunWarning, StopReason, StorageError, TokenBudget, TokenUsage,
    TurnEnd, TurnHeader, TurnSettings, TurnStatus, query_message_ids, response_message_id,
};
use turn::machine::{Machine, Outcome};

/// The facts of an ended run that the machine does not have.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) turn_id: String,
    pub(crate) duration_ms: u64,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) cost: Option<f64>,
    /// Tokens that the machine has not counted.
    pub(crate) unseen: TokenUsage,
    /// Whether some of them are estimated.
    pub(crate) unseen_estimated: bool,
    pub(crate) undelivered_steering: Vec<String>,
    pub(crate) warnings: Vec<RunWarning>,
    pub(crate) compaction: Option<CompactionResult>,
    pub(crate) token_budget: Option<TokenBudget>,
    pub(crate) cache_breaks: Vec<CacheBreak>,
    /// The permissions that its calls needed: a JSON array.
    pub(crate) permissions_used: Option<Box<RawValue>>,
}

/// The position of an ended turn in its session.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnPosition {
    pub(crate) parent_turn_id: Option<String>,
    pub(crate) expected_head: Option<String>,
    /// False for a run that ended before it had its session: it moves no pointer.
    pub(crate) began: bool,
    pub(crate) started_at: i64,
    pub(crate) completed_at: i64,
}

/// The end of a turn, as the ledger writes it. The caller sets the messages and calls to write.
pub(crate) fn turn_end(
    context: &AssembledContext,
    machine: &Machine,
    outcome: &Outcome,
    ended: &Ended,
    position: TurnPosition,
) -> TurnEnd {
    let Used { usage, usage_estimated, context_tokens } = used(machine, ended);
    let all = machine.messages();
    TurnEnd {
        turn_id: ended.turn_id.clone(),
        header: TurnHeader {
            parent_turn_id: position.parent_turn_id,
            expected_head: position.expected_head,
            ..TurnHeader::new(context, position.started_at)
        },
        settings: TurnSettings::new(context),
        move_pointer: position.began && machine.moves_pointer(),
        status: TurnStatus::of(outcome.stop_reason),
        stop_reason: outcome.stop_reason,
        completed_at: position.completed_at,
        usage,
        usage_estimated,
        context_tokens,
        cost: ended.cost,
        query_message_ids: query_message_ids(all),
        response_message_id: response_message_id(all),
        error: outcome.error.clone(),
        attempts: ended.attempts.clone(),
        messages: Vec::new(),
        tool_calls: Vec::new(),
        tool_call_count: machine.calls().count(),
        // The compaction was written when it was made: see `compaction`.
        compaction: None,
        epoch: None,
        on_stale_head: OnStaleHead::Beside,
        last_event: None,
        cache: None,
        queue: None,
        permissions_used: ended.permissions_used.as_ref().map(|used| used.get().to_owned()),
        has_approvals: false,
    }
}

/// The result of an ended run.
pub(crate) fn result(
    context: &AssembledContext,
    machine: Machine,
    outcome: Outcome,
    ended: Ended,
) -> AgentResult {
    let Used { usage, usage_estimated, context_tokens } = used(&machine, &ended);
    let (messages, tool_calls) = machine.into_parts();
    let blocks = messages
        .iter()
        .rfind(|message| message.role == Role::Assistant)
        .map(|message| message.blocks.clone())
        .unwrap_or_default();
    AgentResult {
        turn_id: ended.turn_id,
        run_id: context.run_id.clone(),
        // It crosses with its message, from which the other side copies it.
        text: String::new(),
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
        output: None,
        abort_reason: None,
        compaction: ended.compaction,
        persisted: false,
        persist_error: None,
        plans: Attempt::plans(&ended.attempts),
        attempts: ended.attempts,
        undelivered_steering: ended.undelivered_steering,
        token_budget: ended.token_budget,
        warnings: ended.warnings,
        cache_breaks: ended.cache_breaks,
        pending_approvals: Vec::new(),
        permissions_used: ended.permissions_used,
    }
}

/// The usage of a whole run.
struct Used {
    usage: TokenUsage,
    usage_estimated: bool,
    /// The context's size after the last call.
    context_tokens: Option<u64>,
}

fn used(machine: &Machine, ended: &Ended) -> Used {
    let (usage, estimated, context_tokens) = machine.usage();
    Used {
        usage: usage.plus(ended.unseen),
        usage_estimated: estimated || ended.unseen_estimated,
        context_tokens,
    }
}

/// The tokens of a whole run.
pub(crate) fn usage(machine: &Machine, ended: &Ended) -> TokenUsage {
    used(machine, ended).usage
}

/// The public error of a failed commit.
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
