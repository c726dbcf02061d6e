//! The interface between HTTP and the wire APIs, all of it pure.
//!
//! It must never do I/O: `http` moves the bytes, the API folders only encode and decode them.

use bytes::Bytes;

use super::{Api, Completion, DeltaSink, EmbedApi, Failure, ModelRequest};
use model::{FailureKind, Message, RunWarning, TranscriptRules};

/// The code of the failure of an invalid event. At the end of a stream such an event was cut off.
pub(crate) const MALFORMED_EVENT: &str = "malformed_event";

/// The failure of an invalid part of a response: skipping it would lose a part of the answer.
pub(crate) fn malformed(what: &str) -> Failure {
    Failure::new(
        FailureKind::ServerError,
        MALFORMED_EVENT,
        format!("the response has {what} that cannot be read; try again"),
    )
}

/// Whether a decoder needs more events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Continue.
    More,
    /// The protocol's terminal event was read; later events are ignored.
    End,
}

/// Decodes one response of one API. Tolerant of unknown, duplicated and reordered events (docs/rules/faults.md#untrue-and-repeated-events).
pub trait Decoder: Send {
    /// Decodes one server-sent event; `name` is empty where it had none.
    ///
    /// # Errors
    /// An error event of the provider, or an invalid event that would corrupt the answer.
    fn event(&mut self, name: &str, data: &[u8], sink: &mut dyn DeltaSink)
    -> Result<Flow, Failure>;

    /// Ends the stream: by its terminal event, or because the socket ended.
    ///
    /// # Errors
    /// `stream_truncated` without the protocol's terminal event: a clean end of file is not success.
    fn end(&mut self, sink: &mut dyn DeltaSink) -> Result<Completion, Failure>;

    /// Decodes a whole response that is not a stream: some servers answer with JSON even if a stream was requested.
    ///
    /// # Errors
    /// An error body, or one that is no response of this API.
    fn unary(&mut self, body: &[u8], sink: &mut dyn DeltaSink) -> Result<Completion, Failure>;
}

/// How the bytes of a streamed response are framed into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events (docs/rules/wire/streams.md#sse-parsing).
    EventSource,
    /// AWS's binary event stream, with both checksums (docs/rules/wire/bedrock.md#frames).
    AwsEventStream,
}

/// A request for the number of tokens: a plain POST, answered with JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountCall {
    /// As [`Wire::path`].
    pub path: String,
    /// As [`Wire::body`].
    pub body: Vec<Bytes>,
}

/// One wire API.
pub trait Wire: Send + Sync {
    /// Its name.
    fn api(&self) -> Api;

    /// See [`super::Provider::transcript_rules`].
    fn transcript_rules(&self) -> TranscriptRules {
        TranscriptRules::default()
    }

    /// The path below the base URL, beginning with a slash; percent-encoded, with a query where the API has one.
    fn path(&self, request: &ModelRequest) -> String;

    /// The framing of its streams.
    fn framing(&self) -> Framing {
        Framing::EventSource
    }

    /// The request's body, in pieces that are sent one after the other with an exact content length. Large pieces
    /// (the conversation) are shared, not copied.
    fn body(&self, request: &ModelRequest) -> Vec<Bytes>;

    /// The options of `request` that [`Self::body`] leaves out, because the API has no field for them: each by its name in the
    /// context. An option is written or reported here, never silently dropped.
    fn unsupported(&self, request: &ModelRequest) -> Vec<RunWarning>;

    /// The request for a count of the tokens of `request`, if the API can count.
    fn count(&self, _request: &ModelRequest) -> Option<CountCall> {
        None
    }

    /// The tokens in the answer to [`Self::count`]; `None` for anything that is no such answer.
    fn counted(&self, _body: &[u8]) -> Option<u64> {
        None
    }

    /// How it embeds texts, if it can.
    fn embeddings(&self) -> Option<&'static EmbedApi> {
        None
    }

    /// The path of a request for vectors, of the part of it that [`EmbedApi`] has.
    fn embed_path(&self, _model: &str, part: String) -> String {
        part
    }

    /// See [`super::Provider::encode_messages`].
    fn encode_messages(&self, messages: &[Message]) -> Bytes;

    /// A new decoder for a response to an unknown request: every call is of a tool of the context.
    fn decoder(&self) -> Box<dyn Decoder>;

    /// A new decoder for the response to `request`: a call of a tool that it does not contain is the provider's if the provider
    /// sends the result.
    fn decoder_for(&self, _request: &ModelRequest) -> Box<dyn Decoder> {
        self.decoder()
    }
}
