//! Google's `streamGenerateContent`: requests and answers (docs/rules/wire/google.md).
//!
//! Gemini's API and Vertex have the same wire below different paths: see [`GooglePath`]. It must never do I/O.

mod attachment;
mod body;
mod calls;
mod decode;
mod encode;
mod parse;
mod partial;
mod path;
mod thinking;
mod unsupported;
mod usage;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use path::GooglePath;

use bytes::Bytes;

use crate::{Api, CountCall, Decoder, EmbedApi, ModelRequest, Wire, embeddings};
use model::{Message, RunWarning};

/// The Gemini API at one server.
#[derive(Debug, Clone, Default)]
pub struct GoogleWire {
    path: GooglePath,
}

impl GoogleWire {
    /// The API below one base URL.
    #[must_use]
    pub fn new(path: GooglePath) -> Self {
        Self { path }
    }
}

impl Wire for GoogleWire {
    fn api(&self) -> Api {
        Api::GoogleGenerativeAi
    }

    fn path(&self, request: &ModelRequest) -> String {
        self.path.of_model(&request.model, "streamGenerateContent?alt=sse")
    }

    fn body(&self, request: &ModelRequest) -> Vec<Bytes> {
        body::body(request, self.path.is_vertex())
    }

    fn unsupported(&self, request: &ModelRequest) -> Vec<RunWarning> {
        unsupported::unsupported(request, |name, value| {
            self.path.is_vertex() && body::is_label(name, value)
        })
    }

    fn count(&self, request: &ModelRequest) -> Option<CountCall> {
        Some(CountCall {
            path: self.path.of_model(&request.model, "countTokens"),
            body: body::count(request, self.path.is_vertex()),
        })
    }

    fn counted(&self, body: &[u8]) -> Option<u64> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Counted {
            total_tokens: Option<u64>,
        }
        serde_json::from_slice::<Counted>(body).ok()?.total_tokens
    }

    fn embeddings(&self) -> Option<&'static EmbedApi> {
        Some(if self.path.is_vertex() { &embeddings::VERTEX } else { &embeddings::GEMINI })
    }

    fn embed_path(&self, model: &str, method: String) -> String {
        self.path.of_model(model, &method)
    }

    fn encode_messages(&self, messages: &[Message]) -> Bytes {
        Bytes::from(encode::messages(messages))
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::GoogleDecoder::default())
    }

    fn decoder_for(&self, request: &ModelRequest) -> Box<dyn Decoder> {
        Box::new(decode::GoogleDecoder::new(request.offered()))
    }
}
