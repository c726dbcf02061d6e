//! Options that Google's API does not support: reported, and never dropped silently.

use crate::ModelRequest;
use model::{CacheTtl, RunWarning};

/// The unsupported options. `is_label` decides whether an entry is a valid label, which only Vertex has.
pub(super) fn unsupported(
    request: &ModelRequest,
    is_label: impl Fn(&str, &str) -> bool,
) -> Vec<RunWarning> {
    let options = &request.options;
    let mut warnings = Vec::new();
    let mut warn = |field: &str, why: &str| warnings.push(RunWarning::unsupported(field, why));
    if options.tool_choice.is_some() && request.tools.is_empty() {
        warn("toolChoice", "there is no tool to choose");
    }
    if options.parallel_tool_calls == Some(false) {
        warn("parallelToolCalls", "Google's API lets the model decide");
    }
    if options.prompt_cache.key.is_some() {
        warn("promptCache.key", "Google's API takes none");
    }
    if options.prompt_cache.ttl == Some(CacheTtl::Hour) {
        warn("promptCache.ttl", "Google's implicit cache has a fixed lifetime");
    }
    for (name, _) in options.metadata.iter().filter(|(name, value)| !is_label(name, value)) {
        warn(&format!("requestMetadata.{name}"), "it is no label that Vertex takes");
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use model::{PromptCache, RequestOptions, ToolChoice};

    #[test]
    fn an_option_that_the_api_lacks_is_a_warning_with_its_field() {
        let options = RequestOptions {
            tool_choice: Some(ToolChoice::Required),
            parallel_tool_calls: Some(false),
            prompt_cache: PromptCache { ttl: Some(CacheTtl::Hour), key: Some("k".to_owned()) },
            metadata: [("team".to_owned(), "red".to_owned())].into(),
            ..RequestOptions::default()
        };
        let request = ModelRequest { options: Arc::new(options), ..ModelRequest::default() };
        let fields: Vec<_> = unsupported(&request, |_, _| false)
            .into_iter()
            .filter_map(|warning| warning.field)
            .collect();
        let all = [
            "toolChoice",
            "parallelToolCalls",
            "promptCache.key",
            "promptCache.ttl",
            "requestMetadata.team",
        ];
        assert_eq!(fields, all);
        assert_eq!(unsupported(&request, |_, _| true).len(), 4);
        assert_eq!(unsupported(&ModelRequest::default(), |_, _| false), []);
    }
}
