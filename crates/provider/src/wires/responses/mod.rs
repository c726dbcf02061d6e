//! OpenAI Responses: requests and answers (docs/rules/wire/openai-responses.md).
//!
//! Nothing is stored at the provider (`store: false`): the whole conversation is sent each time, and the model's reasoning
//! is sent back encrypted. It must never do I/O.

mod body;
mod decode;
mod encode;
mod failure;
mod identity;
mod item;
mod items;
mod output;
mod unsupported;
mod usage;
mod wire;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::{Api, CountCall, Decoder, EmbedApi, ModelRequest, Wire, embeddings};
use model::{Message, RunWarning};

/// The Responses API.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResponsesWire {
    takes_cache_key: bool,
}

impl ResponsesWire {
    /// The API at a server that supports `prompt_cache_key`, or does not; an unknown server gets none.
    #[must_use]
    pub fn new(takes_cache_key: bool) -> Self {
        Self { takes_cache_key }
    }
}

impl Wire for ResponsesWire {
    fn api(&self) -> Api {
        Api::OpenaiResponses
    }

    fn path(&self, _request: &ModelRequest) -> String {
        "/responses".to_owned()
    }

    fn body(&self, request: &ModelRequest) -> Vec<Bytes> {
        body::body(request, self.takes_cache_key)
    }

    fn unsupported(&self, request: &ModelRequest) -> Vec<RunWarning> {
        unsupported::unsupported(request, self.takes_cache_key)
    }

    fn count(&self, request: &ModelRequest) -> Option<CountCall> {
        Some(CountCall { path: "/responses/input_tokens".to_owned(), body: body::count(request) })
    }

    fn counted(&self, body: &[u8]) -> Option<u64> {
        #[derive(serde::Deserialize)]
        struct Counted {
            input_tokens: Option<u64>,
        }
        serde_json::from_slice::<Counted>(body).ok()?.input_tokens
    }

    fn embeddings(&self) -> Option<&'static EmbedApi> {
        Some(&embeddings::OPENAI)
    }

    fn encode_messages(&self, messages: &[Message]) -> Bytes {
        Bytes::from(encode::encode(messages))
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::ResponsesDecoder::default())
    }

    fn decoder_for(&self, request: &ModelRequest) -> Box<dyn Decoder> {
        Box::new(decode::ResponsesDecoder::new(request.offered()))
    }
}
