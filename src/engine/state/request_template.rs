//! The part that all requests of a run have in common, read once from its context.
//!
//! It must never leave out an option of the context without a warning.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{AssembledContext, CacheTtl, RequestOptions, RunWarning, ToolChoice};
use provider::{RequestHost, TurnHeaders, cache_key};

/// The common part of all requests of a run, beside the conversation.
pub(crate) struct RequestTemplate {
    pub(crate) headers: TurnHeaders,
    /// The host's `onRequest`.
    pub(crate) hook: Option<Arc<dyn RequestHost>>,
    pub(crate) cache_key: Option<String>,
    /// Whether the context's tool choice forces a call.
    pub(crate) forces_tool: bool,
    /// The options after the forced call was made.
    pub(crate) free: Arc<RequestOptions>,
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

    /// Sets the session's label after an alias was resolved.
    pub(crate) fn session_is(&mut self, context: &AssembledContext) {
        self.cache_key = cache_key_of(context);
    }

    /// Removes fields that were meant only for the previous provider: a header may be a secret, and a provider-run tool works
    /// nowhere else. Returns a warning for each field that is left out.
    pub(crate) fn elsewhere(
        &mut self,
        context: &mut AssembledContext,
        provider: &str,
    ) -> Vec<RunWarning> {
        let why = format!("it is for the first provider, not for `{provider}`");
        let options = &context.request;
        let fields = [
            ("headers", !options.headers.is_empty()),
            ("providerTools", !options.provider_tools.is_empty()),
        ];
        let warnings: Vec<RunWarning> = fields
            .into_iter()
            .filter(|(_, is_set)| *is_set)
            .map(|(field, _)| RunWarning::unsupported(field, &why))
            .collect();
        if !warnings.is_empty() {
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
        warnings
    }

    /// The options of a call. `called`: the run has a tool result already. A choice that forces a call applies to the first
    /// one only: otherwise the run could end only at its iteration cap.
    pub(crate) fn options<'a>(
        &'a self,
        context: &'a AssembledContext,
        called: bool,
    ) -> &'a Arc<RequestOptions> {
        if called { &self.free } else { &context.request }
    }
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
    fn the_cache_key_is_the_hosts_or_the_sessions_hash_and_absent_with_the_cache_off() {
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
    fn only_a_choice_that_forces_a_call_ends_after_it() {
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
