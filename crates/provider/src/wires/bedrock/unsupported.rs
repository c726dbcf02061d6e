//! Options that Converse does not support: reported, and never dropped silently.

use super::{body, models};
use crate::ModelRequest;
use model::{CacheTtl, ResponseFormat, RunWarning};

pub(super) fn unsupported(request: &ModelRequest) -> Vec<RunWarning> {
    let options = &request.options;
    let mut warnings = Vec::new();
    let mut warn = |field: &str, why: &str| warnings.push(RunWarning::unsupported(field, why));
    if matches!(options.response_format, Some(ResponseFormat::JsonObject)) {
        warn("responseFormat", "Converse holds a model to a schema only");
    }
    if request.forces_tool && !request.has_tools() {
        warn("toolChoice", "there is no tool to choose");
    }
    if options.parallel_tool_calls == Some(false) {
        warn("parallelToolCalls", "Converse lets the model decide");
    }
    if options.prompt_cache.key.is_some() {
        warn("promptCache.key", "Converse takes none");
    }
    let hour = models::caching(&request.model).is_some_and(|caching| caching.hour);
    if options.prompt_cache.ttl == Some(CacheTtl::Hour) && !hour {
        warn("promptCache.ttl", "the model is not known to keep a prompt for an hour");
    }
    let sent = body::metadata(request);
    for name in options.metadata.keys().filter(|name| !sent.iter().any(|(sent, _)| sent == name)) {
        warn(
            &format!("requestMetadata.{name}"),
            "it is more than Converse takes, or has other characters",
        );
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
            response_format: Some(ResponseFormat::JsonObject),
            parallel_tool_calls: Some(false),
            prompt_cache: PromptCache { ttl: Some(CacheTtl::Hour), key: Some("k".to_owned()) },
            metadata: [("fine".to_owned(), "red".to_owned()), ("näh".to_owned(), "x".to_owned())]
                .into(),
            ..RequestOptions::default()
        };
        let request = ModelRequest {
            model: "amazon.nova-pro-v1:0".to_owned(),
            options: Arc::new(options),
            forces_tool: true,
            ..ModelRequest::default()
        };
        let fields: Vec<_> =
            unsupported(&request).into_iter().filter_map(|warning| warning.field).collect();
        let all = [
            "responseFormat",
            "toolChoice",
            "parallelToolCalls",
            "promptCache.key",
            "promptCache.ttl",
            "requestMetadata.näh",
        ];
        assert_eq!(fields, all);
        assert_eq!(unsupported(&ModelRequest::default()), []);
    }
}
