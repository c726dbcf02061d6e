//! The servers of an engine. It must never let one server delay what another one has.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::value::RawValue;

use super::content::CallResult;
use super::frame::Params;
use super::parts::ServerParts;
use super::patterns::Selection;
use super::pending::OnProgress;
use super::server::{Server, ServerState};
use super::session::McpError;
use super::settings::ServerSettings;
use super::tool::McpTool;

/// The servers of an engine.
pub struct McpServers {
    servers: Vec<Arc<Server>>,
}

/// The tools that a run has of servers.
#[derive(Debug, Default)]
pub struct FoundTools {
    /// The tools, by server and name.
    pub tools: Vec<Arc<McpTool>>,
    /// The servers that cannot be used now, and why. Tools that such a server listed before are among `tools`.
    pub problems: Vec<(String, String)>,
}

impl McpServers {
    /// Servers, none of which is started.
    #[must_use]
    pub fn new(settings: Vec<ServerSettings>, parts: &ServerParts) -> Arc<Self> {
        let servers = settings.into_iter().map(|settings| Server::new(settings, parts.clone()));
        Arc::new(Self { servers: servers.collect() })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The selected tools. Servers that may have one and do not run are started, all at once.
    pub async fn tools(&self, selection: &Selection) -> FoundTools {
        let wanted: Vec<_> =
            self.servers.iter().filter(|server| selection.may_have(server.name())).collect();
        let listed = join_all(wanted.iter().map(|server| server.tools())).await;
        let mut found = FoundTools::default();
        for (server, (tools, problem)) in wanted.into_iter().zip(listed) {
            let selected = tools
                .tools
                .iter()
                .filter(|tool| selection.has_tool(&tool.server, &tool.name, &tool.exposed));
            found.tools.extend(selected.cloned());
            found.problems.extend(problem.map(|why| (server.name().to_owned(), why)));
        }
        found
    }

    /// Whether a tool that a run would have under this name may be among the selected ones. No server is started.
    #[must_use]
    pub fn may_have(&self, selection: &Selection, exposed: &str) -> bool {
        self.servers.iter().any(|server| {
            let prefix = format!("{}__", server.name());
            exposed.starts_with(&prefix) && selection.may_have(server.name())
        })
    }

    /// Calls a tool with the JSON of its arguments. Dropping the future cancels the call.
    ///
    /// # Errors
    /// Why there is no result.
    pub async fn call(
        &self,
        tool: &McpTool,
        arguments: &RawValue,
        on_progress: OnProgress,
    ) -> Result<CallResult, McpError> {
        let called = self.named(&tool.server)?.call(tool, arguments, on_progress).await;
        called.map_err(|error| about(&tool.server, &error))
    }

    /// The state of each server, as JSON.
    ///
    /// # Errors
    /// None that can happen: names and texts.
    pub fn states(&self) -> Result<String, serde_json::Error> {
        let states: Vec<ServerState> = self.servers.iter().map(|server| server.state()).collect();
        serde_json::to_string(&states)
    }

    /// Ends a server and starts it again; all servers, where no name is given.
    ///
    /// # Errors
    /// The server is not known, or does not start.
    pub async fn reload(&self, name: Option<&str>) -> Result<(), McpError> {
        let servers = match name {
            Some(name) => vec![self.named(name)?],
            None => self.servers.iter().collect(),
        };
        let reloaded = join_all(servers.iter().map(|server| server.reload())).await;
        for (server, outcome) in servers.iter().zip(reloaded) {
            outcome.map_err(|error| about(server.name(), &error))?;
        }
        Ok(())
    }

    /// What a server lists: `resources/list`, `prompts/list`, …, as a JSON array of its own items. Dropping the future cancels it.
    ///
    /// # Errors
    /// The server is not known, or cannot be used.
    pub async fn items(
        &self,
        server: &str,
        method: &str,
        field: &str,
    ) -> Result<Vec<Box<RawValue>>, McpError> {
        let listed = self.named(server)?.items(method, field).await;
        listed.map_err(|error| about(server, &error))
    }

    /// The result of a request to a server with these parameters: the texts of JSON values. Dropping the future cancels it.
    ///
    /// # Errors
    /// The server is not known, or cannot be used.
    pub async fn get(
        &self,
        server: &str,
        method: &str,
        params: Vec<(&'static str, Box<RawValue>)>,
    ) -> Result<Box<RawValue>, McpError> {
        let got = self.named(server)?.get(method, &Params(params)).await;
        got.map_err(|error| about(server, &error))
    }

    fn named(&self, name: &str) -> Result<&Arc<Server>, McpError> {
        self.servers.iter().find(|server| server.name() == name).ok_or_else(|| {
            let known: Vec<&str> = self.servers.iter().map(|server| server.name()).collect();
            let known = known.join(", ");
            McpError::Failed(format!("there is no MCP server of this name; known: {known}"))
        })
    }

    /// Ends all servers.
    pub async fn close(&self) {
        join_all(self.servers.iter().map(|server| server.close())).await;
    }
}

fn about(server: &str, error: &McpError) -> McpError {
    McpError::Failed(format!("MCP server `{server}` {error}"))
}
