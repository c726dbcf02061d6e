//! Approvals: tool calls that wait for a decision of a person, and the decisions.
//!
//! It must never know how a call is run, or who may decide.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Limit;

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ApprovalKind {
    /// A decision whether it runs: `approve` or `deny`.
    Approval,
    /// Its result, because its tool runs elsewhere: `provideToolResult`, or `deny`.
    Result,
}

impl ApprovalKind {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Result => "result",
        }
    }
}

/// What became of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    /// Nobody has decided.
    Pending,
    /// The call runs.
    Approved,
    /// The call does not run.
    Denied,
    /// Nobody decided in time: the call does not run.
    Expired,
    /// The call has the result that was provided.
    Provided,
    /// Its turn ended first.
    Cancelled,
}

impl ApprovalStatus {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Provided => "provided",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A tool call that waits for a decision, or has waited.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Its ULID.
    pub id: String,
    /// What the call waits for.
    pub kind: ApprovalKind,
    /// What became of it.
    pub status: ApprovalStatus,
    /// The turn of the call.
    pub turn_id: String,
    /// The host's id of the run.
    pub run_id: String,
    /// The session.
    pub session_label: String,
    /// The engine's id of the call.
    pub call_id: String,
    /// The provider's id of the call.
    pub tool_call_id: String,
    /// The assistant message with the call.
    pub message_id: String,
    /// The tool.
    pub tool_name: String,
    /// The arguments that the decision is about; once approved with others, those.
    #[cfg_attr(feature = "testing", ts(type = "Record<string, unknown>", optional = false))]
    pub params: Box<RawValue>,
    /// The hash of these arguments, independent of white space and the order of keys.
    pub params_hash: String,
    /// Approved with other arguments: those that were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "testing", ts(optional, type = "Record<string, unknown>"))]
    pub requested_params: Option<Box<RawValue>>,
    /// Why `beforeToolCall` requested a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Who decided, as the host named them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Why it was denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the decision was requested, in Unix milliseconds.
    pub created_at: i64,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    /// When it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<i64>,
    /// The provided result: JSON for the host of tools.
    #[serde(skip)]
    pub result_json: Option<String>,
}

impl Approval {
    /// Whether somebody may still decide at `now_ms`.
    #[must_use]
    pub fn is_pending(&self, now_ms: i64) -> bool {
        self.status == ApprovalStatus::Pending && !self.is_overdue(now_ms)
    }

    fn is_overdue(&self, now_ms: i64) -> bool {
        self.expires_at.is_some_and(|at| at <= now_ms)
    }

    /// The approval at `now_ms`: one that is overdue has expired, also if no process was alive to write that.
    #[must_use]
    pub fn at(mut self, now_ms: i64) -> Self {
        if self.status == ApprovalStatus::Pending && self.is_overdue(now_ms) {
            self.status = ApprovalStatus::Expired;
            self.decided_at = self.expires_at;
        }
        self
    }
}

/// Which approvals are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalFilter {
    /// Those of a session.
    #[serde(default)]
    pub session: Option<String>,
    /// Those of a run, by the host's id.
    #[serde(default)]
    pub run_id: Option<String>,
    /// Those with this status; without it, all.
    #[serde(default)]
    pub status: Option<ApprovalStatus>,
    /// The `next` of the previous page: an approval's id.
    #[serde(default)]
    pub after: Option<String>,
    /// The limit of approvals.
    #[serde(default)]
    pub limit: Limit,
}

/// The arguments with which a call was approved in place of those that were requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedParams {
    /// JSON text of an object.
    pub json: String,
    /// Their hash.
    pub hash: String,
}

/// What is decided about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalVerdict {
    /// It runs, with other arguments if there are some.
    Approve(Option<ApprovedParams>),
    /// It does not run, for this reason.
    Deny(String),
    /// It has this result: JSON for the host of tools.
    Provide(String),
}

/// The approval that a decision is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalName {
    /// The one with this id.
    Id(String),
    /// The one of this call, by the engine's id.
    Call(String),
}

/// A decision about an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDecision {
    /// The approval.
    pub of: ApprovalName,
    /// What is decided.
    pub verdict: ApprovalVerdict,
    /// Who decides.
    pub by: Option<String>,
}
