//! OpenAI Chat Completions, and everything compatible with it.
//!
//! Owns the encoding and decoding of this API, both pure. It must never do I/O.

mod body;
mod calls;
mod decode;
mod effort;
mod encode;
mod failure;
mod options;
mod parse;
mod quirks;
mod reasoning;
mod stop;
mod usage;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use quirks::ChatQuirks;

use bytes::Bytes;

use crate::services::Service;
use crate::{Api, Decoder, EmbedApi, ModelRequest, Wire, embeddings};
use model::{Message, RunWarning, TranscriptRules};

/// The Chat Completions API of one server.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChatWire {
    quirks: ChatQuirks,
}

impl ChatWire {
    /// The API with the quirks of one server.
    #[must_use]
    pub fn new(quirks: ChatQuirks) -> Self {
        Self { quirks }
    }

    /// The API at the server of a base URL's host; the standard where the host is unknown.
    #[must_use]
    pub fn for_host(host: &str) -> Self {
        Self::new(Service::chat_at(host))
    }
}

impl Wire for ChatWire {
    fn api(&self) -> Api {
        Api::OpenaiChat
    }

    fn transcript_rules(&self) -> TranscriptRules {
        self.quirks.transcript
    }

    fn path(&self, _request: &ModelRequest) -> String {
        "/chat/completions".to_owned()
    }

    fn body(&self, request: &ModelRequest) -> Vec<Bytes> {
        body::body(request, &self.quirks)
    }

    fn unsupported(&self, request: &ModelRequest) -> Vec<RunWarning> {
        options::unsupported(request, &self.quirks)
    }

    fn embeddings(&self) -> Option<&'static EmbedApi> {
        let own = self.quirks.ollama_embeddings;
        Some(if own { &embeddings::OLLAMA } else { &embeddings::OPENAI })
    }

    fn encode_messages(&self, messages: &[Message]) -> Bytes {
        Bytes::from(encode::encode(messages, &self.quirks))
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::ChatDecoder::default())
    }

    fn decoder_for(&self, request: &ModelRequest) -> Box<dyn Decoder> {
        Box::new(decode::ChatDecoder::new(request.offered()))
    }
}
