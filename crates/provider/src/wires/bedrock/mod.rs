//! Amazon Bedrock's Converse: requests and answers (docs/rules/wire/bedrock.md).
//!
//! Owns the encoding and decoding of this API, both pure. It must never do I/O or hold a key: `framing/eventstream` parses
//! frames, `auth/aws` signs.

mod block;
mod blocks;
mod body;
mod decode;
mod encode;
mod events;
mod models;
mod unsupported;
mod wire;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::paths::segment;
use crate::{Api, Decoder, EmbedApi, Framing, ModelRequest, Wire, embeddings};
use model::{Message, RunWarning};

/// The Converse API of Bedrock, for every model it serves.
#[derive(Debug, Clone, Copy, Default)]
pub struct BedrockWire;

impl Wire for BedrockWire {
    fn api(&self) -> Api {
        Api::BedrockConverse
    }

    /// The id may be an ARN, with `:` and `/`.
    fn path(&self, request: &ModelRequest) -> String {
        format!("/model/{}/converse-stream", segment(&request.model))
    }

    fn framing(&self) -> Framing {
        Framing::AwsEventStream
    }

    fn body(&self, request: &ModelRequest) -> Vec<Bytes> {
        body::body(request)
    }

    fn unsupported(&self, request: &ModelRequest) -> Vec<RunWarning> {
        unsupported::unsupported(request)
    }

    fn embeddings(&self) -> Option<&'static EmbedApi> {
        Some(&embeddings::BEDROCK)
    }

    fn encode_messages(&self, messages: &[Message]) -> Bytes {
        encode::messages(messages)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::ConverseDecoder::default())
    }

    fn decoder_for(&self, request: &ModelRequest) -> Box<dyn Decoder> {
        Box::new(decode::ConverseDecoder::new(request.offered()))
    }
}
