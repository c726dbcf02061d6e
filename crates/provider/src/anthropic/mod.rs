//! Anthropic Messages: what is sent and how its answers are read (docs/rules/wire/anthropic.md).
//!
//! Owns the headers' names and values, the path and the body. It must never do I/O or hold a key.

mod blocks;
mod decode;
mod encode;
mod failure;
mod options;
mod wire;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use super::paths::segment_with;
use super::{Api, CountCall, Decoder, ModelRequest, Wire};
use model::{Message, RunWarning};

/// Where Vertex has Anthropic's models.
const VERTEX_MODELS: &str = "/publishers/anthropic/models";

/// The header a key travels in; a bearer credential travels in `authorization` instead.
pub const KEY_HEADER: &str = "x-api-key";
/// The header that names the API's version.
pub const VERSION_HEADER: &str = "anthropic-version";

/// The API's version to name where the options name none: the newest at Anthropic itself, the one every compatible
/// server knows elsewhere. Both are parsed alike (docs/rules/wire/anthropic.md#versions-and-headers).
#[must_use]
pub fn default_version(host: &str) -> &'static str {
    if host.eq_ignore_ascii_case("api.anthropic.com") { "2026-10-21" } else { "2023-06-01" }
}

/// Where Claude is served, as far as the requests differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnthropicServer {
    /// `api.anthropic.com`: one `cache_control` for the whole request marks its last block.
    Anthropic,
    /// Vertex AI, below `…/projects/{p}/locations/{l}`: the model is in the path, the version in the body.
    Vertex,
    /// Any other server that speaks the API: the last block is marked itself, which all of them know or ignore.
    #[default]
    Compatible,
}

/// The Anthropic Messages API of one server.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnthropicWire {
    server: AnthropicServer,
}

impl AnthropicWire {
    /// The API as a server has it.
    #[must_use]
    pub fn new(server: AnthropicServer) -> Self {
        Self { server }
    }

    /// The API as the server of a base URL's host has it.
    #[must_use]
    pub fn for_host(host: &str) -> Self {
        let host = host.to_ascii_lowercase();
        Self::new(if host == "api.anthropic.com" {
            AnthropicServer::Anthropic
        } else if is_vertex(&host) {
            AnthropicServer::Vertex
        } else {
            AnthropicServer::Compatible
        })
    }
}

/// Whether a host is Vertex AI's: of a region, of all of them, or of a jurisdiction.
#[must_use]
pub fn is_vertex(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    host == "aiplatform.googleapis.com"
        || host.ends_with("-aiplatform.googleapis.com")
        || (host.starts_with("aiplatform.") && host.ends_with(".rep.googleapis.com"))
}

impl Wire for AnthropicWire {
    fn api(&self) -> Api {
        Api::AnthropicMessages
    }

    fn path(&self, request: &ModelRequest) -> String {
        match self.server {
            AnthropicServer::Anthropic | AnthropicServer::Compatible => "/v1/messages".to_owned(),
            AnthropicServer::Vertex => {
                // Its names have an `@` (`claude-x@20260131`), which stays.
                format!("{VERTEX_MODELS}/{}:streamRawPredict", segment_with(&request.model, b"@"))
            }
        }
    }

    fn body(&self, request: &ModelRequest) -> Vec<Bytes> {
        encode::body(request, self.server, encode::Purpose::Answer)
    }

    fn unsupported(&self, request: &ModelRequest) -> Vec<RunWarning> {
        options::unsupported(request)
    }

    fn count(&self, request: &ModelRequest) -> Option<CountCall> {
        let path = match self.server {
            AnthropicServer::Anthropic | AnthropicServer::Compatible => {
                "/v1/messages/count_tokens".to_owned()
            }
            AnthropicServer::Vertex => format!("{VERTEX_MODELS}/count-tokens:rawPredict"),
        };
        Some(CountCall { path, body: encode::body(request, self.server, encode::Purpose::Count) })
    }

    fn counted(&self, body: &[u8]) -> Option<u64> {
        serde_json::from_slice::<wire::Counted>(body).ok()?.input_tokens
    }

    fn encode_messages(&self, messages: &[Message]) -> Bytes {
        encode::messages(messages)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::AnthropicDecoder::default())
    }

    fn decoder_for(&self, request: &ModelRequest) -> Box<dyn Decoder> {
        Box::new(decode::AnthropicDecoder::new(request.offered()))
    }
}
