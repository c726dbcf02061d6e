//! Anthropic Messages: what is sent and how its answers are read (WIRE §1).
//!
//! Owns the headers' names and values, the path and the body. It must never do I/O or hold a key.

mod blocks;
mod decode;
mod encode;
mod failure;
mod wire;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use super::{Api, Decoder, ModelRequest, Wire};
use crate::model::Message;

/// The header a key travels in; a bearer credential travels in `authorization` instead.
pub const KEY_HEADER: &str = "x-api-key";
/// The header that names the API's version.
pub const VERSION_HEADER: &str = "anthropic-version";

/// The API's version to name where the options name none: the newest at Anthropic itself, the one every compatible
/// server knows elsewhere. Both are parsed alike (WIRE §1).
#[must_use]
pub fn default_version(host: &str) -> &'static str {
    if host.eq_ignore_ascii_case("api.anthropic.com") { "2026-10-21" } else { "2023-06-01" }
}

/// The Anthropic Messages API.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnthropicWire;

impl Wire for AnthropicWire {
    fn api(&self) -> Api {
        Api::AnthropicMessages
    }

    fn path(&self, _request: &ModelRequest) -> String {
        "/v1/messages".to_owned()
    }

    fn body(&self, request: &ModelRequest) -> Vec<Bytes> {
        let mut pieces = Vec::with_capacity(request.messages.len() * 2 + 1);
        let mut before = encode::head(request);
        for message in &request.messages {
            pieces.push(before);
            pieces.push(message.clone());
            before = Bytes::from_static(b",");
        }
        if request.messages.is_empty() {
            pieces.push(before);
        }
        pieces.push(Bytes::from_static(b"]}"));
        pieces
    }

    fn encode_messages(&self, messages: &[Message]) -> Bytes {
        encode::messages(messages)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::AnthropicDecoder::default())
    }
}
