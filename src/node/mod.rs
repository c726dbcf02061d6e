//! The napi shell: the only room that knows JavaScript. `index.js` is the public face over it.
//!
//! Owns the hub, conversion and errors at the edge. It must never decide anything about a run. Structured data crosses
//! as JSON text; nothing is `async fn(&self)`, because a worker that ends frees what such a future borrows (docs/rules/node-boundary.md#no-borrowed-futures).

mod answers;
mod compaction;
mod engine;
mod events;
mod hub;
mod key_host;
mod ledger;
mod profiles;
mod reading;
mod recovery;
mod request_host;
mod tool_host;

use std::sync::Arc;

use crate::engine::RECORD_BYTES;
use base::error::{EngineError, ErrorCode};
use hub::HubCore;

/// The JavaScript error of an engine error: its reason is JSON that `index.js` turns into an `AgentEngineError`.
fn js_error(error: &EngineError) -> napi::Error {
    napi::Error::from_reason(error_json(error))
}

fn error_json(error: &EngineError) -> String {
    serde_json::json!({
        "code": error.code.as_str(),
        "field": error.field,
        "message": error.message,
        "error": error.failure,
    })
    .to_string()
}

/// Answers request `id` of this environment with JSON text, or with an error.
fn reply(hub: &Arc<HubCore>, id: u32, answer: Result<String, EngineError>) {
    let json = match answer {
        Ok(value) if value.len() > RECORD_BYTES => {
            let message = format!(
                "the answer is `{}` bytes long, and at most `{RECORD_BYTES}` can be handed out; ask for less at once",
                value.len()
            );
            let error = EngineError::new(ErrorCode::ResultTooLarge, message);
            format!("{{\"id\":{id},\"error\":{}}}", error_json(&error))
        }
        Ok(value) => format!("{{\"id\":{id},\"ok\":{value}}}"),
        Err(error) => format!("{{\"id\":{id},\"error\":{}}}", error_json(&error)),
    };
    hub.reply(&json);
}
