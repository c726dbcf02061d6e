//! Errors for JavaScript: the JSON from which `index.js` creates an `AgentEngineError`. It must never add to a message.

use base::error::EngineError;

/// The JavaScript error of an engine error: its reason is the JSON from which `index.js` creates an `AgentEngineError`.
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
