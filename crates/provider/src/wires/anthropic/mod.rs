//! Anthropic Messages: requests and answers (docs/rules/wire/anthropic.md).
//!
//! Owns the path and the body. It must never do I/O or hold a key.

mod blocks;
mod decode;
mod encode;
mod failure;
mod options;
mod server;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use server::{AnthropicServer, default_version, is_vertex};

use bytes::Bytes;

use crate::paths::segment_with;
use crate::{Api, CountCall, Decoder, ModelRequest, Wire};
use model::{Message, RunWarning};

/// The path of Anthropic's models at Vertex.
const VERTEX_MODELS: &str = "/publishers/anthropic/models";

/// The Anthropic Messages API of one server.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnthropicWire {
    server: AnthropicServer,
}

impl AnthropicWire {
    /// The API at a server.
    #[must_use]
    pub fn new(server: AnthropicServer) -> Self {
        Self { server }
    }

    /// The API at the server of a base URL's host.
    #[must_use]
    pub fn for_host(host: &str) -> Self {
        Self::new(AnthropicServer::at(host))
    }
}

impl Wire for AnthropicWire {
    fn api(&self) -> Api {
        Api::AnthropicMessages
    }

    fn path(&self, request: &ModelRequest) -> String {
        match self.server {
            AnthropicServer::Anthropic | AnthropicServer::Compatible => "/v1/messages".to_owned(),
            AnthropicServer::Vertex => {
                // Its names have an `@` (`claude-x@20260131`), which is not encoded.
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
