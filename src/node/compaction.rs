//! Manual compaction for JavaScript: the arguments, the answer through the hub, the cancellation.
//!
//! It must never decide what is compacted.

use std::sync::Arc;

use napi::Result;
use napi_derive::napi;
use serde::Deserialize;

use super::engine::NativeEngine;
use super::errors::js_error;
use super::reply::{json, reply};
use crate::engine::ManualCompaction;
use base::error::{EngineError, ErrorCode};
use model::{from_json, session_label};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CompactionArguments {
    label: String,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    model: Option<String>,
}

fn parse(json: &str) -> std::result::Result<ManualCompaction, EngineError> {
    let arguments: CompactionArguments = from_json(json).map_err(EngineError::option)?;
    let label = session_label("label", &arguments.label)
        .map_err(|error| EngineError::at(ErrorCode::InvalidLabel, error))?;
    let CompactionArguments { instructions, provider, model, .. } = arguments;
    Ok(ManualCompaction { session_label: label, instructions, provider, model })
}

#[napi]
impl NativeEngine {
    /// Compacts the session that `options` names, and answers request `id` with the result or null. `hooked`:
    /// it has an `onRequest`.
    #[napi(catch_unwind)]
    pub fn compact(&self, id: u32, options: String, hooked: bool) -> Result<()> {
        let compaction = parse(&options).map_err(|error| js_error(&error))?;
        let (engine, hub) = (Arc::clone(self.engine()), Arc::clone(self.hub()));
        let host = self.request_host(id, hooked);
        let (requests, cancel) = (self.requests.clone(), self.requests.begin(id));
        self.tasks().spawn(async move {
            let done = engine.compact(compaction, cancel, host).await;
            let done = done.and_then(|result| json(&result));
            requests.end(id);
            reply(&hub, id, done);
        });
        Ok(())
    }

    /// Cancels request `id`: a compaction, which then writes nothing, or a question to MCP servers.
    #[napi(catch_unwind)]
    pub fn cancel_request(&self, id: u32) {
        self.requests.cancel(id);
    }
}
