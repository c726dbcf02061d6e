//! Options that the Responses API does not support: reported, and never dropped silently.

use crate::ModelRequest;
use model::{CacheTtl, RunWarning};

pub(super) fn unsupported(request: &ModelRequest, takes_cache_key: bool) -> Vec<RunWarning> {
    let options = &request.options;
    let mut warnings = Vec::new();
    let mut warn = |field: &str, why: &str| warnings.push(RunWarning::unsupported(field, why));
    if !options.stop_sequences.is_empty() {
        warn("stopSequences", "the Responses API takes none");
    }
    if request.forces_tool && !request.has_tools() {
        warn("toolChoice", "there is no tool to choose");
    }
    if options.prompt_cache.ttl == Some(CacheTtl::Hour) {
        warn("promptCache.ttl", "it is not sent: the model's default lifetime applies");
    }
    if options.prompt_cache.key.is_some() && !takes_cache_key {
        warn("promptCache.key", "this server is not known to take one; see `promptCacheKey`");
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use model::{PromptCache, RequestOptions};

    #[test]
    fn an_option_that_the_api_lacks_is_a_warning_with_its_field() {
        let options = RequestOptions {
            stop_sequences: vec!["END".to_owned()],
            prompt_cache: PromptCache { ttl: Some(CacheTtl::Hour), key: None },
            ..RequestOptions::default()
        };
        let request = ModelRequest {
            options: Arc::new(options),
            forces_tool: true,
            ..ModelRequest::default()
        };
        let fields: Vec<_> =
            unsupported(&request, true).into_iter().filter_map(|warning| warning.field).collect();
        assert_eq!(fields, ["stopSequences", "toolChoice", "promptCache.ttl"]);
        assert_eq!(unsupported(&ModelRequest::default(), true), []);
    }
}
