//! What the broker passes in: the broker interface's `AssembledContext`, parsed.
//!
//! It must never hold a function or a signal: those stay in the host.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    GivenHistory, Message, Metadata, ModelName, PlannerSettings, RequestOptions, RunPolicy,
    ToolDefinition,
};

/// The role of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    /// Talks to the user and delegates work.
    Manager,
    /// Does delegated work.
    Worker,
    /// Both.
    Unified,
}

impl AgentRole {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manager => "manager",
            Self::Worker => "worker",
            Self::Unified => "unified",
        }
    }
}

/// How much the model may think. Exactly one field is sent, by what the model supports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThinkingConfig {
    /// `enabled` (with `budgetTokens`), `adaptive` or `disabled`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub mode: Option<ThinkingMode>,
    /// Tokens the model may think, at least 1,024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    /// How hard to think, for models that take an effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<ThinkingEffort>,
}

/// The thinking modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ThinkingMode {
    /// A fixed budget.
    Enabled,
    /// The model decides.
    Adaptive,
    /// None.
    Disabled,
}

/// The effort levels of the providers' APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the levels are the providers' own words")]
pub enum ThinkingEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl ThinkingEffort {
    /// The smallest budget in tokens that an API accepts.
    pub const LEAST_BUDGET: u64 = 1_024;

    /// The providers' name for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// The effort for a budget in tokens, for an API that has only efforts.
    #[must_use]
    pub fn of_budget(tokens: u64) -> Self {
        match tokens {
            0..4_096 => Self::Low,
            4_096..16_384 => Self::Medium,
            _ => Self::High,
        }
    }

    /// The budget in tokens for an effort, for a model that has only budgets.
    #[must_use]
    pub fn budget(self) -> u64 {
        match self {
            Self::None | Self::Minimal => Self::LEAST_BUDGET,
            Self::Low => 2_048,
            Self::Medium => 8_192,
            Self::High => 16_384,
            Self::Xhigh | Self::Max => 32_768,
        }
    }

    /// The nearest of low, medium and high, for an API that has no others.
    #[must_use]
    pub fn of_three(self) -> Self {
        match self {
            Self::None | Self::Minimal | Self::Low => Self::Low,
            Self::Medium => Self::Medium,
            Self::High | Self::Xhigh | Self::Max => Self::High,
        }
    }
}

/// The broker interface's budget, in tokens, as context assembly calculated it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct TokenBudget {
    /// The model's window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_limit: Option<u64>,
    /// Reserved for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve_response: Option<u64>,
    /// Reserved for tool definitions and results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve_tools: Option<u64>,
    /// What is left for the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<u64>,
    /// What the context uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// `available - used`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
}

impl AssembledContext {
    /// The messages of the history that the host passed; none without one.
    pub fn given_messages(&self) -> impl Iterator<Item = &Message> + Clone {
        self.history.iter().flat_map(GivenHistory::iter)
    }
}

/// A parsed and checked context. Built by [`crate::parse_context`] only.
#[derive(Debug, Clone)]
pub struct AssembledContext {
    /// Layer 1.
    pub system_prompt: String,
    /// Layer 2, where the host passed it; otherwise the ledger's.
    pub history: Option<GivenHistory>,
    /// The messages of this turn before `current_message`, where the host runs the tools itself.
    pub current_turn: Vec<Message>,
    /// Layer 3.
    pub current_message: Message,
    /// The tools on offer.
    pub tools: Vec<ToolDefinition>,
    /// Their JSON text as it was passed: the key of a compiled set in the cache.
    pub tools_json: String,
    /// The model's id.
    pub model: String,
    /// The provider's name in the engine's options.
    pub provider: String,
    /// The fallback models; the engine's where `None`.
    pub fallbacks: Option<Vec<ModelName>>,
    /// The only profile of its provider that is used.
    pub auth_profile_id: Option<String>,
    /// How much to think.
    pub thinking_config: Option<ThinkingConfig>,
    /// The options of the requests, beside the conversation.
    pub request: Arc<RequestOptions>,
    /// Cap of one answer in tokens.
    pub max_response_tokens: Option<u64>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The budget context assembly calculated.
    pub token_budget: TokenBudget,
    /// Limit of the whole run in milliseconds.
    pub timeout_ms: u64,
    /// The host's id of the run.
    pub run_id: String,
    /// The session this turn belongs to.
    pub session_label: String,
    /// The turn this one follows; the session's head where `None`.
    pub parent_turn_id: Option<String>,
    /// The role of the agent.
    pub role: AgentRole,
    /// The toolset's name, for the ledger.
    pub toolset_name: String,
    /// The permissions snapshot, for the ledger: JSON text.
    pub permissions_granted: Box<RawValue>,
    /// The event that triggered this.
    pub source_event_id: Option<String>,
    /// The workspace's root.
    pub workspace_path: String,
    /// The host's own data, stored with the turn.
    pub metadata: Option<Metadata>,
    /// What it was put together from: a list of [`crate::RecordedLayer`]s as JSON, stored with the current message.
    pub layers: Option<String>,
    /// The destination of the answer; passed through in `stream_start` as JSON text.
    pub target: Option<Box<RawValue>>,
    /// The maximum number of model calls (docs/rules/turns-and-streams.md#iteration-limit; default 25).
    pub max_iterations: u32,
    /// Limit of one tool in milliseconds, where the tool names none.
    pub tool_timeout_ms: Option<u64>,
    /// How many parallel tools run at once; at least 1.
    pub max_parallel_tools: u32,
    /// False: the socket waits for a slow reader instead of merging deltas (docs/rules/turns-and-streams.md#coalescing).
    pub coalesce: bool,
    /// True: leaving the iterator does not abort the run.
    pub detached: bool,
    /// What becomes of the run while a call waits for an approval.
    pub on_approval: OnApproval,
    /// After how many milliseconds an approval expires, where `beforeToolCall` sets nothing else.
    pub approval_expires_ms: Option<u64>,
    /// What the run may do at most; each holds.
    pub policies: Vec<RunPolicy>,
    /// Names and patterns of the tools of MCP servers that the run has; `None` for all.
    pub mcp: Option<Vec<String>>,
    /// Who decides before the model is called.
    pub planner: Option<Box<PlannerSettings>>,
}

/// What becomes of a run while a call waits for an approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnApproval {
    /// Its result stays pending; the run continues in its process after the decision.
    #[default]
    Wait,
    /// It ends with the approvals in its result; the host resumes the turn after the decision.
    Return,
}
