//! The ports of the engine that JavaScript functions implement: tools, request hooks, keys and embedders, with the open questions to
//! them.

mod answers;
mod client_host;
mod coding;
mod coding_calls;
mod embed_host;
mod key_host;
mod mcp;
mod mcp_lists;
mod memory_calls;
mod request_host;
mod tool_host;

pub(super) use answers::RequestAnswers;
pub(super) use client_host::{ClientAnswers, JsClientHost};
pub(super) use coding::{CodingHost, CodingTools};
pub(super) use coding_calls::{blocking, repaired};
pub(super) use embed_host::{EmbedAnswers, js_embedder, start_memory};
pub(super) use key_host::{JsKeyHost, KeyAnswers};
pub(super) use mcp::{McpHost, mcp_servers};
pub(super) use request_host::{Asker, JsRequestHost};
pub(super) use tool_host::{JsToolHost, ToolAnswers};
