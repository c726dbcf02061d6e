//! The request of one call: what a context, a conversation and a model come to, and what of it cannot be said.
//!
//! It must never send anything, and never leave out in silence what the context asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::conversation::Conversation;
use super::super::driver::Run;
use super::HookHost;
use base::telemetry;
use model::{
    AssembledContext, CacheTtl, ModelInfo, RequestOptions, RunWarning, ToolChoice, ToolDefinition,
};
use provider::{ModelRequest, Provider, RequestHost, TurnHeaders, cache_key};

/// What all requests of a run have in common beside the conversation, read once from its context.
pub(crate) struct RequestTemplate {
    headers: TurnHeaders,
    hook: Option<Arc<dyn RequestHost>>,
    cache_key: Option<String>,
    forces_tool: bool,
    /// The options once the call that they force was made.
    free: Arc<RequestOptions>,
}

impl RequestTemplate {
    pub(crate) fn of(
        context: &AssembledContext,
        headers: TurnHeaders,
        hook: Option<Arc<dyn RequestHost>>,
    ) -> Self {
        let options = &context.request;
        let forces_tool = match options.tool_choice {
            Some(ToolChoice::Required | ToolChoice::Tool { .. }) => true,
            Some(ToolChoice::Auto | ToolChoice::None) | None => false,
        };
        let free = if forces_tool {
            Arc::new(RequestOptions { tool_choice: None, ..options.as_ref().clone() })
        } else {
            Arc::clone(options)
        };
        let cache_key = cache_key_of(context);
        Self { headers, hook, cache_key, forces_tool, free }
    }

    /// The context's session is another than its label said.
    pub(crate) fn session_is(&mut self, context: &AssembledContext) {
        self.cache_key = cache_key_of(context);
    }

    /// Another provider is asked from here on: what was meant for the one before alone is not told it. A header may be a
    /// secret, and a provider's own tool is no other's.
    pub(crate) fn elsewhere(
        &mut self,
        context: &mut AssembledContext,
        provider: &str,
    ) -> Vec<RunWarning> {
        let why = format!("it is for the provider asked first, not for `{provider}`");
        let options = &context.request;
        let fields = [
            ("headers", !options.headers.is_empty()),
            ("providerTools", !options.provider_tools.is_empty()),
        ];
        let told: Vec<RunWarning> = fields
            .into_iter()
            .filter(|(_, given)| *given)
            .map(|(field, _)| RunWarning::unsupported(field, &why))
            .collect();
        if !told.is_empty() {
            let without = |options: &RequestOptions| {
                let bare = RequestOptions {
                    headers: BTreeMap::new(),
                    provider_tools: Vec::new(),
                    ..options.clone()
                };
                Arc::new(bare)
            };
            self.headers = TurnHeaders::default();
            self.free = without(&self.free);
            context.request = without(&context.request);
        }
        told
    }

    /// The options of a call; `called` as for [`Self::request`].
    pub(crate) fn options<'a>(
        &'a self,
        context: &'a AssembledContext,
        called: bool,
    ) -> &'a RequestOptions {
        if called { &self.free } else { &context.request }
    }

    /// The request for one call of `model`; `called` says whether a tool of the run has answered. A choice that forces a call
    /// holds for the first one: left as it is, the run could only end at its cap.
    pub(crate) fn request(
        &self,
        context: &AssembledContext,
        tools: &Arc<[ToolDefinition]>,
        model: &ModelInfo,
        conversation: &Conversation,
        provider: &dyn Provider,
        called: bool,
    ) -> ModelRequest {
        let max_tokens = max_tokens(context, model);
        let (messages, open_end) = conversation.request_pieces(provider);
        let thinking = context.thinking_config.as_ref();
        ModelRequest {
            model: context.model.clone(),
            system: context.system_prompt.clone(),
            tools: Arc::clone(tools),
            messages,
            open_end,
            earlier_end: conversation.earlier_end(),
            max_tokens,
            temperature: context.temperature.filter(|_| model.temperature),
            thinking: thinking.and_then(|asked| model.thinking_for(asked, max_tokens)),
            options: Arc::clone(if called { &self.free } else { &context.request }),
            forces_tool: self.forces_tool,
            cache_key: self.cache_key.clone(),
            headers: self.headers.clone(),
            hook: None,
            reasoning_model: model.reasoning,
        }
    }
}

impl Run {
    /// The request of the next call, its hook aside.
    pub(super) fn request(&self, conversation: &Conversation, called: bool) -> ModelRequest {
        let provider = self.provider.as_ref();
        let tools = self.tool_set.tools();
        self.template.request(&self.context, tools, &self.model, conversation, provider, called)
    }

    /// Who looks at the run's requests.
    pub(crate) fn hook(&self) -> Option<HookHost<'_>> {
        let host = self.template.hook.as_ref()?;
        Some(HookHost { host, run_id: &self.context.run_id })
    }

    /// What the context asks and `request` cannot say, for want of a place in the API or of the model's consent.
    pub(super) fn warnings(&self, request: &ModelRequest) -> Vec<RunWarning> {
        let (context, model) = (&self.context, &self.context.model);
        let mut told = Vec::new();
        if context.temperature.is_some() && request.temperature.is_none() {
            let why = format!("`{model}` takes no temperature");
            told.push(RunWarning::unsupported("temperature", &why));
        }
        if context.thinking_config.is_some() && request.thinking.is_none() {
            let why = format!("`{model}` cannot be asked that within `maxResponseTokens`");
            told.push(RunWarning::unsupported("thinkingConfig", &why));
        }
        told.extend(self.provider.unsupported(request));
        for warning in &told {
            let field = warning.field.as_deref().unwrap_or_default();
            telemetry::run_warned(&self.turn_id, &warning.code, field);
        }
        told
    }
}

pub(crate) fn max_tokens(context: &AssembledContext, model: &ModelInfo) -> u64 {
    /// What is asked for where the host names no cap: long answers are rare, and the reservation counts against limits.
    const DEFAULT_CAP: u64 = 32_000;
    context.max_response_tokens.unwrap_or(DEFAULT_CAP).min(model.max_output_tokens).max(1)
}

fn cache_key_of(context: &AssembledContext) -> Option<String> {
    let cache = &context.request.prompt_cache;
    match cache.ttl {
        Some(CacheTtl::Off) => None,
        Some(CacheTtl::Minutes | CacheTtl::Hour) | None => {
            Some(cache.key.clone().unwrap_or_else(|| cache_key(&context.session_label)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use model::{Defaults, parse_context};

    fn template(changes: Value) -> RequestTemplate {
        RequestTemplate::of(&context(changes), TurnHeaders::default(), None)
    }

    fn context(changes: Value) -> AssembledContext {
        let mut context = json!({
            "systemPrompt": "", "currentMessage": { "role": "user", "content": "hi" },
            "tools": [{ "name": "t", "description": "", "parameters": {} }], "model": "m",
            "provider": "p", "timeoutMs": 1, "runId": "r", "sessionLabel": "dm:+491701234567",
            "role": "unified", "toolsetName": "", "permissionsGranted": [], "workspacePath": "",
        });
        context.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let mut defaults = Defaults { new_id: &mut String::new, now_ms: 0 };
        parse_context(&context.to_string(), &mut defaults).unwrap()
    }

    #[test]
    fn the_cache_key_is_the_hosts_or_the_sessions_hash_and_none_with_the_cache_off() {
        let key = |cache: Value| template(json!({ "promptCache": cache })).cache_key;
        let derived = template(json!({})).cache_key.unwrap();
        assert_eq!(derived, cache_key("dm:+491701234567"));
        assert!(!derived.contains("4917"));
        assert_eq!(key(json!({ "ttl": "1h" })), Some(derived));
        assert_eq!(key(json!({ "key": "mine" })), Some("mine".to_owned()));
        assert_eq!(key(json!({ "ttl": "off", "key": "mine" })), None);
        let mut alias = template(json!({}));
        alias.session_is(&context(json!({ "sessionLabel": "real" })));
        assert_eq!(alias.cache_key, Some(cache_key("real")));
    }

    #[test]
    fn only_a_choice_that_forces_a_call_is_given_up_after_it() {
        let after = |choice: Value| {
            let template = template(json!({ "toolChoice": choice, "stopSequences": ["x"] }));
            assert_eq!(template.free.stop_sequences, ["x"]);
            (template.forces_tool, template.free.tool_choice.clone())
        };
        assert_eq!(after(json!("required")), (true, None));
        assert_eq!(after(json!({ "name": "t" })), (true, None));
        assert_eq!(after(json!("none")), (false, Some(ToolChoice::None)));
        assert_eq!(after(json!("auto")), (false, Some(ToolChoice::Auto)));
    }
}
