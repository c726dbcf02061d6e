//! The fields of a context before they are read: each is the JSON text that the host passed.
//!
//! It must never look into a field.

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawContext<'a> {
    #[serde(borrow, default)]
    pub(super) system_prompt: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) history: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) current_turn: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) current_message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tools: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) provider: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) fallbacks: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) auth_profile_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking_config: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_choice: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) parallel_tool_calls: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response_format: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_sequences: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) prompt_cache: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) layers: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) request_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) headers: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) provider_tools: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) max_response_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) temperature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) token_budget: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) timeout_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) run_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) session_label: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) parent_turn_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) role: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) toolset_name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) permissions_granted: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) source_event_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) workspace_path: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) target: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) max_iterations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_timeout_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) output_retries: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) max_parallel_tools: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) coalesce: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) detached: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) on_approval: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) approval_expires_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) policy: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) mcp: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) planner: Option<&'a RawValue>,
}
