//! The tools of MCP servers in a run: which it has, and their calls, without JavaScript.
//!
//! It must never let a call go on whose run has ended, or accept a result that does not fit its tool.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::json as object;
use serde_json::value::RawValue;

use crate::engine::{EventQueue, JoinedTools, JoiningTools, RecordKind, Tasks};
use base::clock::Clock;
use mcp::{
    CallResult, ClientHost, FoundTools, McpServers, McpTool, OnProgress, RunRules, Selection,
    ServerParts, ServerSettings,
};
use model::{AssembledContext, RunWarning};
use provider::{HttpClient, KeyHost};
use tools::{Invocation, ResultSchema, ToolAnswer};

/// The time limit of a tool where neither the server's options, the run nor the engine set one: a server may never answer.
const TIMEOUT_MS: u64 = 60_000;

/// The servers of an engine, none of which is started; `None` where the options name none.
pub(in crate::node) fn mcp_servers(
    settings: Vec<ServerSettings>,
    tasks: &Tasks,
    clock: &Clock,
    client: &Arc<HttpClient>,
    keys: &Arc<dyn KeyHost>,
    client_host: Arc<dyn ClientHost>,
) -> Option<Arc<McpServers>> {
    if settings.is_empty() {
        return None;
    }
    let tasks = tasks.clone();
    let parts = ServerParts {
        clock: clock.clone(),
        spawn: Arc::new(move |task| tasks.spawn(task)),
        check: Arc::new(|schema| ResultSchema::compile(schema).map(drop)),
        client: Arc::clone(client),
        keys: Some(Arc::clone(keys)),
        client_host: Some(client_host),
    };
    Some(McpServers::new(settings, &parts))
}

/// The tools of servers that a run has: none before it begins, and the same ones until it ends.
pub(in crate::node) struct McpHost {
    servers: Arc<McpServers>,
    tools: OnceLock<HashMap<String, Arc<McpTool>>>,
}

/// A tool of a run, as one call uses it.
pub(super) struct McpCall {
    servers: Arc<McpServers>,
    tool: Arc<McpTool>,
}

impl McpHost {
    pub(in crate::node) fn new(servers: &Arc<McpServers>) -> Arc<Self> {
        Arc::new(Self { servers: Arc::clone(servers), tools: OnceLock::new() })
    }

    /// The tools that a run of `context` gets. `decides`: it has a `beforeToolCall`; `has_limit`: the engine has a time limit of tools.
    pub(in crate::node) fn join(
        self: &Arc<Self>,
        context: &AssembledContext,
        decides: bool,
        has_limit: bool,
    ) -> JoiningTools {
        let host = Arc::clone(self);
        let selection = selection(context);
        let taken: HashSet<String> = context.tools.iter().map(|tool| tool.name.clone()).collect();
        let has_limit = has_limit || context.tool_timeout_ms.is_some();
        let rules = RunRules { decides, timeout_ms: (!has_limit).then_some(TIMEOUT_MS) };
        let (choice, servers) = (selection.clone(), Arc::clone(&self.servers));
        let may_have = Box::new(move |name: &str| servers.may_have(&choice, name));
        let tools = Box::pin(async move {
            let FoundTools { tools, problems } = host.servers.tools(&selection).await;
            let tools = distinct(tools, taken);
            let definitions = tools.iter().map(|tool| tool.definition(rules)).collect();
            let own_name = |tool: &Arc<McpTool>| Some((tool.exposed.clone(), tool.own_name()?));
            let own_names = tools.iter().filter_map(own_name).collect();
            let by_name = tools.into_iter().map(|tool| (tool.exposed.clone(), tool)).collect();
            // Once per run.
            let _ = host.tools.set(by_name);
            let warnings = problems.into_iter().map(unavailable).collect();
            JoinedTools { tools: definitions, own_names, warnings }
        });
        JoiningTools { tools, may_have }
    }

    pub(super) fn find(&self, name: &str) -> Option<McpCall> {
        let tool = Arc::clone(self.tools.get()?.get(name)?);
        Some(McpCall { servers: Arc::clone(&self.servers), tool })
    }
}

fn selection(context: &AssembledContext) -> Selection {
    match &context.mcp {
        None => Selection::all(),
        some => Selection::of(some.clone(), Vec::new()),
    }
}

/// The tools under names that are not taken: the host's own tools have theirs.
fn distinct(tools: Vec<Arc<McpTool>>, mut taken: HashSet<String>) -> Vec<Arc<McpTool>> {
    let mut named = Vec::with_capacity(tools.len());
    for tool in tools {
        let tool = if taken.contains(&tool.exposed) { Arc::new(tool.renamed()) } else { tool };
        if taken.insert(tool.exposed.clone()) {
            named.push(tool);
        }
    }
    named
}

fn unavailable((server, why): (String, String)) -> RunWarning {
    RunWarning {
        code: "mcp_unavailable".to_owned(),
        field: Some(format!("mcp.{server}")),
        message: format!("MCP server `{server}` {why}"),
    }
}

impl McpCall {
    /// Calls the tool. Dropping the future cancels the call.
    pub(super) async fn execute(
        self,
        invocation: &Invocation,
        queue: Arc<EventQueue>,
    ) -> ToolAnswer {
        let Self { servers, tool } = self;
        let Ok(arguments) = serde_json::from_str::<&RawValue>(&invocation.arguments_json) else {
            return ToolAnswer::error("the arguments are not JSON");
        };
        let on_progress = reporter(invocation, queue);
        let result = match servers.call(&tool, arguments, on_progress).await {
            Ok(result) => result,
            Err(error) => return ToolAnswer::error(error.to_string()),
        };
        match mismatch(&tool, &result).await {
            Some(why) => ToolAnswer::error(why),
            None => ToolAnswer {
                content: result.content,
                result_json: Some(result.raw),
                is_error: result.is_error,
                spawned_session_label: None,
            },
        }
    }
}

/// Why a result does not fit what its tool declares. An error need not fit.
async fn mismatch(tool: &McpTool, result: &CallResult) -> Option<String> {
    let schema = tool.output.clone().filter(|_| !result.is_error)?;
    let Some(structured) = result.structured.clone() else {
        return Some(format!(
            "MCP server `{}` answered without the structured result that the tool `{}` declares",
            tool.server, tool.name
        ));
    };
    // Compiling may take long, and this schema is not the host's.
    let checked = tokio::task::spawn_blocking(move || match ResultSchema::compile(schema.get()) {
        Ok(schema) => schema.mismatch(structured.get()),
        Err(why) => Some(format!("\n  - root: the schema {why}")),
    });
    let lines =
        checked.await.unwrap_or_else(|_| Some("\n  - root: cannot be checked".to_owned()))?;
    Some(format!(
        "MCP server `{}` answered a result that does not fit the output schema of the tool `{}`:{lines}",
        tool.server, tool.name
    ))
}

/// Reports the progress of a call to the reader of its run.
fn reporter(invocation: &Invocation, queue: Arc<EventQueue>) -> OnProgress {
    #[derive(Deserialize)]
    struct Progress {
        progress: Option<f64>,
        total: Option<f64>,
        message: Option<String>,
    }
    let Invocation { tool_name, provider_call_id, call_id, .. } = invocation.clone();
    Arc::new(move |params: &RawValue| {
        let Ok(Progress { progress, total, message }) = serde_json::from_str(params.get()) else {
            return;
        };
        let content: Vec<_> =
            message.iter().map(|text| object!({ "type": "text", "text": text })).collect();
        let details = object!({ "progress": progress, "total": total, "message": message });
        let update = object!({
            "toolName": tool_name, "toolCallId": provider_call_id, "callId": call_id,
            "partial": { "content": content, "details": details },
        });
        queue.host(RecordKind::ToolUpdate, &update.to_string());
    })
}
