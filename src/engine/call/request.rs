//! Builds the request of a run's next call from its context, its conversation and its model.
//!
//! It must never send anything, and never leave out an option of the context without a warning.

use std::sync::Arc;

use super::model_call::HookHost;
use crate::engine::context::{Conversation, max_tokens};
use crate::engine::state::{ModelTarget, RequestTemplate, Run};
use base::telemetry;
use model::{AssembledContext, RunWarning, ToolDefinition};
use provider::ModelRequest;

/// The request for one call of `target`, without its hook. `tools_answered`: the run has a tool result already.
pub(crate) fn request(
    template: &RequestTemplate,
    context: &AssembledContext,
    tools: &Arc<[ToolDefinition]>,
    target: &ModelTarget,
    conversation: &Conversation,
    tools_answered: bool,
) -> ModelRequest {
    let model = &target.model;
    let max_tokens = max_tokens(context, model);
    let (messages, open_end) = conversation.request_pieces(target.provider.as_ref());
    let thinking = context.thinking_config.as_ref();
    ModelRequest {
        model: target.model_name.clone(),
        system: context.system_prompt.clone(),
        tools: Arc::clone(tools),
        messages,
        open_end,
        earlier_end: conversation.earlier_end(),
        max_tokens,
        temperature: context.temperature.filter(|_| model.temperature),
        thinking: thinking.and_then(|requested| model.thinking_for(requested, max_tokens)),
        options: Arc::clone(template.options(context, tools_answered)),
        forces_tool: template.forces_tool,
        cache_key: template.cache_key.clone(),
        headers: template.headers.clone(),
        hook: None,
        reasoning_model: model.reasoning,
        embed: None,
    }
}

/// The host that inspects a run's requests.
pub(crate) fn run_hook(run: &Run) -> Option<HookHost<'_>> {
    let host = run.template.hook.as_ref()?;
    Some(HookHost { host, run_id: &run.context.run_id })
}

/// A warning for each option of the context that `request` cannot express, because the API or the model does not support it.
pub(crate) fn unsupported(run: &Run, request: &ModelRequest) -> Vec<RunWarning> {
    let (context, model) = (&run.context, &run.target.model_name);
    let mut warnings = Vec::new();
    if context.temperature.is_some() && request.temperature.is_none() {
        let why = format!("`{model}` does not support it");
        warnings.push(RunWarning::unsupported("temperature", &why));
    }
    if context.thinking_config.is_some() && request.thinking.is_none() {
        let why = format!("`{model}` does not support it within `maxResponseTokens`");
        warnings.push(RunWarning::unsupported("thinkingConfig", &why));
    }
    warnings.extend(run.target.provider.unsupported(request));
    for warning in &warnings {
        let field = warning.field.as_deref().unwrap_or_default();
        telemetry::run_warned(&run.turn_id, &warning.code, field);
    }
    warnings
}
