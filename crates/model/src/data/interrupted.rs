//! A turn that was begun and has not ended: what the ledger has of it, and its public form.
//!
//! It must never hold the history before it, a function, or a header: a resumed run reads or receives them again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::{
    AgentMessage, AgentRole, AgentToolCall, Approval, AssembledContext, Attempt, Message, Metadata,
    ModelName, PlannerSettings, PromptCache, ReplayClass, ResponseFormat, RunPolicy,
    ThinkingConfig, TokenBudget, TokenUsage, ToolChoice,
};

/// The counters of a run, beside its messages and calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// Complete answers of the model.
    pub iterations: u32,
    /// Answers that were paused and continued.
    pub continuations: u32,
    /// The sum over the calls.
    pub usage: TokenUsage,
    /// Whether a part of it is estimated.
    pub usage_estimated: bool,
    /// The context's size after the last call.
    pub context_tokens: Option<u64>,
    /// US dollars; `None` once a price was unknown.
    pub cost: Option<f64>,
    /// Every attempt at a provider.
    pub attempts: Vec<Attempt>,
}

/// A tool call of an open turn.
#[derive(Debug, Clone)]
pub struct OpenCall {
    /// The call as it was last written.
    pub row: AgentToolCall,
    /// What its tool declared.
    pub replay: ReplayClass,
    /// Whether its side effect may have started.
    pub begun: bool,
}

/// A turn that was begun and has not ended.
#[derive(Debug, Clone)]
pub struct OpenTurn {
    /// The turn's ULID.
    pub turn_id: String,
    /// The host's id of the run.
    pub run_id: String,
    /// Its session.
    pub session_label: String,
    /// The turn it follows.
    pub parent_turn_id: Option<String>,
    /// The session's head when it began.
    pub expected_head: Option<String>,
    /// Whether the session's head has moved since.
    pub moved: bool,
    /// The event that triggered it.
    pub source_event_id: Option<String>,
    /// The destination of its answer: JSON.
    pub target: Option<String>,
    /// Unix milliseconds.
    pub started_at: i64,
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Its messages so far, in order.
    pub messages: Vec<Message>,
    /// Its calls so far, in order.
    pub calls: Vec<OpenCall>,
    /// Its counters.
    pub progress: Progress,
    /// The host's own data.
    pub metadata: Option<Metadata>,
    /// Its context without history, headers and current message: JSON that [`crate::parse_context`] reads.
    pub context: String,
    /// Whether that text differs from the one that was written: then it must not be used.
    pub altered: bool,
    /// The epoch of its lease.
    pub epoch: i64,
    /// The approvals of its calls, decided or not, oldest first.
    pub approvals: Vec<Approval>,
    /// Whether it has given up its lease to wait for one of them.
    pub parked: bool,
}

/// A tool call of an interrupted turn.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct InterruptedCall {
    /// The call. `running`: it had started, and its outcome is unknown.
    #[serde(flatten)]
    pub call: AgentToolCall,
    /// Its replay class.
    pub replay: ReplayClass,
}

/// A turn that was begun, has not ended, and runs nowhere: its process ended, or lost its lease.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct InterruptedTurn {
    /// The turn's ULID: the argument of `resume` and `discard`.
    pub turn_id: String,
    /// The host's id of the run.
    pub run_id: String,
    /// Its session.
    pub session_label: String,
    /// The turn it follows; null for a root.
    pub parent_turn_id: Option<String>,
    /// False: the session has continued without it, so it can only be discarded; or its stored context was altered
    /// from outside, and it can only be left as it is.
    pub resumable: bool,
    /// Unix milliseconds.
    pub started_at: i64,
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The host's own data; null where there is none.
    #[cfg_attr(feature = "testing", ts(type = "Record<string, unknown> | null"))]
    pub metadata: Option<Metadata>,
    /// Complete answers of the model so far.
    pub iterations: u32,
    /// The messages so far, in order.
    pub messages: Vec<AgentMessage>,
    /// The tool calls so far, in order.
    pub tool_calls: Vec<InterruptedCall>,
    /// True: it was not interrupted; calls of it wait for a decision, or have one and were not resumed since.
    pub awaiting_approval: bool,
    /// The approvals of its calls, decided or not, oldest first.
    pub approvals: Vec<Approval>,
}

impl From<OpenTurn> for InterruptedTurn {
    fn from(turn: OpenTurn) -> Self {
        Self {
            turn_id: turn.turn_id,
            run_id: turn.run_id,
            session_label: turn.session_label,
            parent_turn_id: turn.parent_turn_id,
            resumable: !turn.moved && !turn.altered,
            started_at: turn.started_at,
            provider: turn.provider,
            model: turn.model,
            metadata: turn.metadata,
            iterations: turn.progress.iterations,
            messages: turn.messages.into_iter().map(AgentMessage::from).collect(),
            tool_calls: turn
                .calls
                .into_iter()
                .map(|call| InterruptedCall { call: call.row, replay: call.replay })
                .collect(),
            awaiting_approval: turn.parked,
            approvals: turn.approvals,
        }
    }
}

/// The stored form of a context: field by field, the host's own JSON byte for byte.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredContext<'a> {
    system_prompt: &'a str,
    tools: Option<&'a RawValue>,
    model: &'a str,
    provider: &'a str,
    fallbacks: Option<&'a [ModelName]>,
    auth_profile_id: Option<&'a str>,
    thinking_config: Option<&'a ThinkingConfig>,
    #[serde(serialize_with = "choice")]
    tool_choice: Option<&'a ToolChoice>,
    parallel_tool_calls: Option<bool>,
    response_format: Option<&'a ResponseFormat>,
    output_retries: Option<u32>,
    stop_sequences: &'a [String],
    prompt_cache: &'a PromptCache,
    request_metadata: &'a BTreeMap<String, String>,
    provider_tools: &'a [Box<RawValue>],
    max_response_tokens: Option<u64>,
    temperature: Option<f64>,
    token_budget: &'a TokenBudget,
    timeout_ms: u64,
    role: AgentRole,
    toolset_name: &'a str,
    permissions_granted: &'a RawValue,
    workspace_path: &'a str,
    max_iterations: u32,
    tool_timeout_ms: Option<u64>,
    max_parallel_tools: u32,
    coalesce: bool,
    detached: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_expires_ms: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    policy: &'a [RunPolicy],
    #[serde(skip_serializing_if = "Option::is_none")]
    mcp: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    planner: Option<&'a PlannerSettings>,
}

fn choice<S: Serializer>(choice: &Option<&ToolChoice>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Named<'a> {
        name: &'a str,
    }
    match choice {
        None => serializer.serialize_none(),
        Some(ToolChoice::Auto) => serializer.serialize_str("auto"),
        Some(ToolChoice::None) => serializer.serialize_str("none"),
        Some(ToolChoice::Required) => serializer.serialize_str("required"),
        Some(ToolChoice::Tool { name }) => Named { name }.serialize(serializer),
    }
}

impl AssembledContext {
    /// The context that a resumption needs: JSON that [`crate::parse_context`] reads once the run's own fields (its id,
    /// session and message) are added. Without history and headers: those may be long, or secret.
    #[must_use]
    pub fn stored_json(&self) -> String {
        let request = &self.request;
        let stored = StoredContext {
            system_prompt: &self.system_prompt,
            tools: serde_json::from_str(&self.tools_json).ok(),
            model: &self.model,
            provider: &self.provider,
            fallbacks: self.fallbacks.as_deref(),
            auth_profile_id: self.auth_profile_id.as_deref(),
            thinking_config: self.thinking_config.as_ref(),
            tool_choice: request.tool_choice.as_ref(),
            parallel_tool_calls: request.parallel_tool_calls,
            response_format: request.response_format.as_ref(),
            output_retries: request.output_retries,
            stop_sequences: &request.stop_sequences,
            prompt_cache: &request.prompt_cache,
            request_metadata: &request.metadata,
            provider_tools: &request.provider_tools,
            max_response_tokens: self.max_response_tokens,
            temperature: self.temperature,
            token_budget: &self.token_budget,
            timeout_ms: self.timeout_ms,
            role: self.role,
            toolset_name: &self.toolset_name,
            permissions_granted: &self.permissions_granted,
            workspace_path: &self.workspace_path,
            max_iterations: self.max_iterations,
            tool_timeout_ms: self.tool_timeout_ms,
            max_parallel_tools: self.max_parallel_tools,
            coalesce: self.coalesce,
            detached: self.detached,
            approval_expires_ms: self.approval_expires_ms,
            policy: &self.policies,
            mcp: self.mcp.as_deref(),
            planner: self.planner.as_deref(),
        };
        // Strings, numbers, and parsed JSON: serde_json cannot fail on them.
        serde_json::to_string(&stored).unwrap_or_default()
    }
}

impl OpenTurn {
    /// The stored context with the run's own fields added: JSON that [`crate::parse_context`] reads.
    ///
    /// # Errors
    /// The stored context is no JSON object, or not the one that was written.
    pub fn context_json(&self) -> Result<String, serde_json::Error> {
        if self.altered {
            return Err(serde::de::Error::custom("it is not the context that was written"));
        }
        self.with_names(serde_json::from_str(&self.context)?)
    }

    /// A context with the turn's names only, to close a turn with an altered context.
    ///
    /// # Errors
    /// The row's values have no JSON.
    pub fn bare_context_json(&self) -> Result<String, serde_json::Error> {
        let bare = serde_json::json!({
            "systemPrompt": "", "tools": [], "model": self.model, "provider": self.provider, "tokenBudget": {},
            "timeoutMs": 1, "role": "unified", "toolsetName": "", "permissionsGranted": [], "workspacePath": "",
        });
        self.with_names(serde_json::from_str(&bare.to_string())?)
    }

    fn with_names(
        &self,
        mut fields: BTreeMap<String, Box<RawValue>>,
    ) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ResumedMessage<'a> {
            role: &'a str,
            content: &'a str,
        }
        let mut put = |name: &str, value: Box<RawValue>| fields.insert(name.to_owned(), value);
        put("runId", to_raw_value(&self.run_id)?);
        put("sessionLabel", to_raw_value(&self.session_label)?);
        put("sourceEventId", to_raw_value(&self.source_event_id)?);
        // A placeholder: the turn's own message is among its messages.
        put(
            "currentMessage",
            to_raw_value(&ResumedMessage { role: "user", content: "(resumed)" })?,
        );
        if let Some(target) = &self.target {
            put("target", RawValue::from_string(target.clone())?);
        }
        serde_json::to_string(&fields)
    }
}
