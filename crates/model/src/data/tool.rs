//! Tools as the model and the ledger see them: name, description, schema and how they may run.
//!
//! It must never hold the function itself: that belongs to the host of the tool.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// How a tool may run beside the other calls of the same message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ExecutionMode {
    /// Alone.
    #[default]
    Sequential,
    /// Together with other parallel tools.
    Parallel,
}

/// What may be done with a call whose outcome is unknown after a crash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ReplayClass {
    /// No side effect: run it again.
    Pure,
    /// The same key has the same effect: run it again with the same idempotency key.
    Idempotent,
    /// The tool can report what happened.
    Reconcilable,
    /// Never run again.
    #[default]
    Unsafe,
}

impl ReplayClass {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Idempotent => "idempotent",
            Self::Reconcilable => "reconcilable",
            Self::Unsafe => "unsafe",
        }
    }
}

/// Whether a call of a tool needs somebody's approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ToolPermission {
    /// It runs.
    #[default]
    Allow,
    /// It waits for an approval, unless `permissionsGranted` covers it or `beforeToolCall` allows it.
    Ask,
}

/// The error of a call whose outcome is unknown after a crash.
pub const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// What the model reads as the result of such a call.
pub const OUTCOME_UNKNOWN_TEXT: &str = "outcome_unknown: the process ended while this tool ran, and whether it had \
    its effect is not known. Find out before you call it again.";

/// One tool. `parameters` is JSON Schema (2020-12), passed to the model whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDefinition {
    /// `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What the model reads.
    #[serde(default)]
    pub description: String,
    /// The schema's JSON text.
    pub parameters: Box<RawValue>,
    /// How it may run beside others.
    #[serde(default)]
    pub execution_mode: ExecutionMode,
    /// Limit of one execution in milliseconds; the run's remaining time where absent.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// What may be done after a crash.
    #[serde(default)]
    pub replay: ReplayClass,
    /// The most characters of a result that the model reads, where that is less than the engine's limit.
    #[serde(default)]
    pub max_result_chars: Option<u64>,
    /// How often a failed execution is tried again; only with `pure` or `idempotent`.
    #[serde(default)]
    pub retries: u32,
    /// Whether a call needs an approval.
    #[serde(default)]
    pub permission: ToolPermission,
    /// It runs elsewhere: a call waits for its result.
    #[serde(default)]
    pub external: bool,
}
