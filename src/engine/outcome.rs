//! What a finished machine comes to: the result for the host and the commit for the ledger, from the same facts.
//!
//! It must never decide anything: the machine has.

use crate::model::{
    AgentMessage, AgentResult, AssembledContext, Attempt, PersistError, Role, StopReason,
    StorageError, TurnCommit, TurnStatus,
};
use crate::turn::machine::{Machine, Outcome};

/// The facts of an ended run that the machine does not hold.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) turn_id: String,
    pub(crate) parent_turn_id: Option<String>,
    pub(crate) expected_head: Option<String>,
    pub(crate) started_at: i64,
    pub(crate) completed_at: i64,
    pub(crate) duration_ms: u64,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) cost: Option<f64>,
    pub(crate) undelivered_steering: Vec<String>,
}

/// The result and the commit of an ended run. `journal` is `None` without one, else whether the run had its session: a
/// run that ended before that moves no pointer.
pub(crate) fn build(
    context: &AssembledContext,
    machine: Machine,
    outcome: Outcome,
    ended: Ended,
    journal: Option<bool>,
) -> (AgentResult, Option<Box<TurnCommit>>) {
    let (usage, usage_estimated, context_tokens) = machine.usage();
    let moves = machine.moves_pointer();
    let (messages, tool_calls) = machine.into_parts();
    let commit = journal.map(|began| {
        Box::new(TurnCommit {
            turn_id: ended.turn_id.clone(),
            run_id: context.run_id.clone(),
            session_label: context.session_label.clone(),
            parent_turn_id: ended.parent_turn_id,
            expected_head: ended.expected_head,
            move_pointer: moves && began,
            status: TurnStatus::of(outcome.stop_reason),
            stop_reason: outcome.stop_reason,
            started_at: ended.started_at,
            completed_at: ended.completed_at,
            provider: context.provider.clone(),
            model: context.model.clone(),
            role: context.role,
            toolset_name: context.toolset_name.clone(),
            tools_available: context.tools.iter().map(|tool| tool.name.clone()).collect(),
            permissions_granted: context.permissions_granted.get().to_owned(),
            usage,
            usage_estimated,
            context_tokens,
            cost: ended.cost,
            query_message_ids: messages
                .iter()
                .filter(|message| message.role == Role::User)
                .map(|message| message.id.clone())
                .collect(),
            response_message_id: messages
                .iter()
                .rfind(|message| message.role == Role::Assistant)
                .map(|message| message.id.clone()),
            source_event_id: context.source_event_id.clone(),
            workspace_path: context.workspace_path.clone(),
            error: outcome.error.clone(),
            attempts: ended.attempts.clone(),
            messages: messages.clone(),
            tool_calls: tool_calls.clone(),
            compaction: None,
        })
    });
    let blocks = messages
        .iter()
        .rfind(|message| message.role == Role::Assistant)
        .map(|message| message.blocks.clone())
        .unwrap_or_default();
    let result = AgentResult {
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
        compaction: None,
        persisted: false,
        persist_error: None,
        attempts: ended.attempts,
        undelivered_steering: ended.undelivered_steering,
    };
    (result, commit)
}

/// The public face of a commit that failed.
pub(crate) fn persist_error(error: &StorageError) -> PersistError {
    PersistError { code: error.kind.code().to_owned(), message: error.message.clone() }
}

/// The event that ends the stream: an error for `error` and `timeout`, else the final end (RULES §1).
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
