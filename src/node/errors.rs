//! Errors at the edge: the JSON that `index.js` turns into an `AgentEngineError`.

use base::error::EngineError;

/// The JavaScript error of an engine error: its reason is JSON that `index.js` turns into an `AgentEngineError`.
pub(super) fn js_error(error: &EngineError) -> napi::Error {
    napi::Error::from_reason(error_json(error))
}

pub(super) fn error_json(error: &EngineError) -> String {
    serde_json::json!({
        "code": error.code.as_str(),
        "field": error.field,
        "message": error.message,
        "error": error.failure,
    })
    .to_string()
}
