//! Runs as a host looks them up: where a run is, how it ended, and the filter of a list of them.
//!
//! These are public types of the package. They must never be written back.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{
    AgentError, AgentErrorKind, AgentMessage, AgentResult, Attempt, CompactionResult, ErrorDetail,
    FailureKind, Limit, PersistError, Role, StopReason, StorageErrorKind, TurnError, TurnRow,
};

/// Where a run is. `waiting`: another run of its session comes first. `awaiting_approval`: a call waits for a decision. `interrupted`: its process has ended, or lost its lease;
/// the turn can be resumed where it was opened. The others are those of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It waits for its session.
    Waiting,
    /// Its turn is open, and a process runs it.
    Running,
    /// A call of it waits for a decision, and no process runs it.
    AwaitingApproval,
    /// It has not ended, and no process runs it.
    Interrupted,
    /// It ended with an answer.
    Completed,
    /// It was aborted.
    Aborted,
    /// It failed.
    Failed,
}

impl RunStatus {
    /// Whether it is that of a run which has ended.
    #[must_use]
    pub fn has_ended(self) -> bool {
        match self {
            Self::Waiting | Self::Running | Self::AwaitingApproval | Self::Interrupted => false,
            Self::Completed | Self::Aborted | Self::Failed => true,
        }
    }

    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Interrupted => "interrupted",
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
        }
    }
}

/// The process of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct RunProcess {
    /// Its id, on the machine where the run is.
    pub pid: i64,
    /// Whether it is this process.
    pub current: bool,
}

/// A run in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct RunInfo {
    /// The host's id.
    pub run_id: String,
    /// Its turn; `ledger.turn(id)` has it once it is opened.
    pub turn_id: String,
    /// Its session.
    pub session_label: String,
    /// Where it is.
    pub status: RunStatus,
    /// The number of its last stored event; 0 where none is stored.
    pub last_seq: u64,
    /// Unix milliseconds.
    pub started_at: i64,
    /// Unix milliseconds; null before its end.
    pub ended_at: Option<i64>,
    /// The process that runs it, or in which it waits; null where none does.
    pub process: Option<RunProcess>,
}

/// The filter of a list of runs.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunFilter {
    /// Those of a session, by its label or an alias.
    #[serde(default)]
    pub session: Option<String>,
    /// Those with a status.
    #[serde(default)]
    pub status: Option<RunStatus>,
    /// The `next` of the previous page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// The limit of items: 1 to 1,000. Default 100.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<u32>"))]
    pub limit: Limit,
}

/// What a run was started with, as the ledger has it.
#[derive(Debug, Clone)]
pub struct StoredRequest {
    /// Its session.
    pub session_label: String,
    /// Its messages, the host's first.
    pub messages: Vec<AgentMessage>,
}

/// A run that has ended.
#[derive(Debug, Clone)]
pub struct EndedRun {
    /// Its turn.
    pub turn: TurnRow,
    /// The last compaction that it needed.
    pub compaction: Option<CompactionResult>,
    /// Whether the turn is in the thread of its session, and not beside it.
    pub in_thread: bool,
}

impl From<EndedRun> for AgentResult {
    /// The result as far as the ledger has it: what only the run's own process knew is empty.
    fn from(EndedRun { turn, compaction, in_thread }: EndedRun) -> Self {
        let error = turn.error.as_ref().map(|error| stored_error(error, &turn.attempts));
        let blocks = turn
            .messages
            .iter()
            .rfind(|message| message.role == Role::Assistant)
            .map(|message| message.blocks.clone())
            .unwrap_or_default();
        let duration = turn.completed_at.unwrap_or(turn.started_at) - turn.started_at;
        let persist_error = (!in_thread).then(|| PersistError {
            code: StorageErrorKind::StaleHead.code().to_owned(),
            message: format!(
                "turn `{}` is beside the thread of its session, which had continued meanwhile",
                turn.id
            ),
        });
        Self {
            turn_id: turn.id,
            run_id: turn.run_id,
            text: String::new(),
            messages: turn.messages,
            blocks,
            tool_calls: turn.tool_calls,
            usage: turn.usage,
            usage_estimated: turn.usage_estimated,
            context_tokens: turn.context_tokens.and_then(|tokens| tokens.try_into().ok()),
            cost: turn.cost,
            stop_reason: turn.stop_reason.as_deref().and_then(named).unwrap_or(StopReason::Error),
            duration_ms: duration.try_into().unwrap_or_default(),
            error,
            output: None,
            abort_reason: None,
            compaction,
            persisted: in_thread,
            persist_error,
            plans: Attempt::plans(&turn.attempts),
            attempts: turn.attempts,
            undelivered_steering: Vec::new(),
            token_budget: None,
            warnings: Vec::new(),
            cache_breaks: Vec::new(),
            pending_approvals: Vec::new(),
            permissions_used: turn.permissions_used,
        }
    }
}

/// The value of an enumeration with that name.
fn named<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(serde_json::Value::from(name)).ok()
}

/// The error of a turn, with the finer kind of its last attempt.
fn stored_error(error: &TurnError, attempts: &[Attempt]) -> AgentError {
    let kind = named(&error.kind).unwrap_or(AgentErrorKind::Unknown);
    let code = error.code.clone();
    let last = attempts
        .last()
        .filter(|attempt| attempt.reason.is_some_and(|reason| reason.agent_kind() == kind));
    let finer = last.and_then(|attempt| attempt.reason).or_else(|| {
        code.as_deref().and_then(named::<FailureKind>).filter(|finer| finer.agent_kind() == kind)
    });
    let detail = ErrorDetail {
        kind: finer.unwrap_or_else(|| kind.failure_kind()),
        status: last.and_then(|attempt| attempt.status),
        code,
        retry_after_ms: None,
        retry_after_source: None,
    };
    AgentError { kind, message: error.message.clone(), retryable: error.retryable, detail }
}
