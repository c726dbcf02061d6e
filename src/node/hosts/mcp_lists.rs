//! The MCP servers of an engine for JavaScript: their states, and what they list. Answers come through the hub.
//!
//! It must never start a server because an engine was made.

use std::sync::Arc;

use napi_derive::napi;
use serde_json::json as object;
use serde_json::value::{RawValue, to_raw_value};

use super::super::engine::NativeEngine;
use super::super::reply::{Answer, json};
use base::error::{EngineError, ErrorCode};
use mcp::{FoundTools, McpError, McpServers, RunRules, Selection};

fn failed(error: &McpError) -> EngineError {
    EngineError::new(ErrorCode::McpFailed, error.to_string())
}

#[napi]
impl NativeEngine {
    /// The states of the servers: a JSON array of `McpServerState`.
    #[napi(catch_unwind)]
    pub fn mcp_states(&self) -> String {
        self.mcp
            .as_ref()
            .and_then(|servers| servers.states().ok())
            .unwrap_or_else(|| "[]".to_owned())
    }

    /// The tools that a run would get, as a JSON array of `McpToolInfo`; answers request `id`.
    #[napi(catch_unwind)]
    pub fn mcp_tools(&self, id: u32) {
        self.ask_servers(id, async move |servers| {
            let FoundTools { tools, .. } = servers.tools(&Selection::all()).await;
            let rules = RunRules { decides: false, timeout_ms: None };
            let infos: Vec<_> = tools
                .iter()
                .map(|tool| {
                    let definition = tool.definition(rules);
                    object!({
                        "name": definition.name,
                        "server": &*tool.server,
                        "tool": tool.name,
                        "description": definition.description,
                        "parameters": tool.parameters,
                        "outputSchema": tool.output,
                        "replay": definition.replay,
                    })
                })
                .collect();
            json(&infos)
        });
    }

    /// What a server lists, its own items as a JSON array; answers request `id`. `method` is one of the protocol, and `field` where its
    /// pages have the items.
    #[napi(catch_unwind)]
    pub fn mcp_items(&self, id: u32, server: String, method: String, field: String) {
        self.ask_servers(id, async move |servers| {
            let listed = servers.items(&server, &method, &field).await;
            json(&listed.map_err(|error| failed(&error))?)
        });
    }

    /// The contents of a resource; answers request `id`.
    #[napi(catch_unwind)]
    pub fn mcp_resource(&self, id: u32, server: String, uri: String) {
        let params = to_raw_value(&uri).map(|uri| vec![("uri", uri)]).unwrap_or_default();
        self.get(id, server, "resources/read", params);
    }

    /// A prompt with its arguments, the JSON of an object of texts; answers request `id`.
    #[napi(catch_unwind)]
    pub fn mcp_prompt(&self, id: u32, server: String, name: String, arguments: String) {
        let arguments = RawValue::from_string(arguments).unwrap_or_default();
        let params = to_raw_value(&name).map(|name| vec![("name", name), ("arguments", arguments)]);
        self.get(id, server, "prompts/get", params.unwrap_or_default());
    }

    /// Starts a server again, or all of them; answers request `id`.
    #[napi(catch_unwind)]
    pub fn mcp_reload(&self, id: u32, server: Option<String>) {
        self.ask_servers(id, async move |servers| {
            servers.reload(server.as_deref()).await.map_err(|error| failed(&error))?;
            Ok("null".to_owned())
        });
    }
}

impl NativeEngine {
    fn get(
        &self,
        id: u32,
        server: String,
        method: &'static str,
        params: Vec<(&'static str, Box<RawValue>)>,
    ) {
        self.ask_servers(id, async move |servers| {
            let got = servers.get(&server, method, params).await;
            Ok(got.map_err(|error| failed(&error))?.get().to_owned())
        });
    }

    /// Work that a cancellation of request `id` ends, and so cancels its requests to the servers.
    fn ask_servers<W, F>(&self, id: u32, work: W)
    where
        W: FnOnce(Arc<McpServers>) -> F,
        F: Future<Output = Answer> + Send + 'static,
    {
        let Some(servers) = &self.mcp else {
            return self.answer(id, async {
                let message = "the engine has no MCP servers; pass `mcp`";
                Err(EngineError::new(ErrorCode::McpFailed, message))
            });
        };
        let work = work(Arc::clone(servers));
        let (requests, cancel) = (self.requests.clone(), self.requests.begin(id));
        self.answer(id, async move {
            let answer = tokio::select! {
                answer = work => answer,
                // The promise is rejected already.
                () = cancel.cancelled() => Err(EngineError::new(ErrorCode::McpFailed, "was cancelled")),
            };
            requests.end(id);
            answer
        });
    }
}
