//! A client of MCP servers: it starts them, lists their tools, resources and prompts, and calls tools.
//!
//! Servers are not trusted: whatever one sends, or does not send, is an error of one call. It must never know a run, let a server
//! fail one, or show a secret of a server's options.

mod answerer;
mod content;
mod frame;
mod http;
mod listening;
mod listing;
mod marks;
mod names;
mod parts;
mod patterns;
mod pending;
mod redaction;
mod server;
mod servers;
mod session;
mod settings;
mod stdio;
mod tool;

pub use answerer::{ClientAnswer, ClientHost};
pub use content::CallResult;
pub use parts::{SchemaCheck, ServerParts, Spawn};
pub use patterns::Selection;
pub use pending::OnProgress;
pub use servers::{FoundTools, McpServers};
pub use session::McpError;
pub use settings::{ServerSettings, parse_servers};
pub use tool::{McpTool, RunRules};
