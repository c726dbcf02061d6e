//! The seam between HTTP and the APIs: what each wire API provides, all of it pure.
//!
//! It must never do I/O: `http` moves the bytes, the API folders only encode and decode them.

use bytes::Bytes;

use super::{Api, Completion, DeltaSink, Failure, ModelRequest};
use model::{FailureKind, Message, RunWarning, TranscriptRules};

/// The code of the failure that an event which cannot be read causes. At the end of a stream such an event was cut off.
pub(crate) const MALFORMED_EVENT: &str = "malformed_event";

/// The failure over a part of a response that cannot be read. To go on would lose a part of the answer.
pub(crate) fn malformed(what: &str) -> Failure {
    Failure::new(
        FailureKind::ServerError,
        MALFORMED_EVENT,
        format!("the response has {what} that cannot be read; ask again"),
    )
}

/// Whether a decoder wants more events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    More,
    /// The protocol's terminal event was seen; what follows is ignored.
    End,
}

/// Decodes one response of one API. Tolerant of unknown, duplicated and reordered events (docs/rules/faults.md#untrue-and-repeated-events).
pub trait Decoder: Send {
    /// Takes one server-sent event; `name` is empty where it had none.
    ///
    /// # Errors
    /// An error event of the provider, or an event that cannot be understood where guessing would corrupt the answer.
    fn event(&mut self, name: &str, data: &[u8], sink: &mut dyn DeltaSink)
    -> Result<Flow, Failure>;

    /// The stream is over: by its terminal event, or because the socket ended.
    ///
    /// # Errors
    /// `stream_truncated` where the protocol's terminal event was never seen: a clean end of file is not success.
    fn end(&mut self, sink: &mut dyn DeltaSink) -> Result<Completion, Failure>;

    /// Takes a whole response that is not a stream: some servers answer JSON with 200 whatever was asked.
    ///
    /// # Errors
    /// An error body, or one that is no response of this API.
    fn unary(&mut self, body: &[u8], sink: &mut dyn DeltaSink) -> Result<Completion, Failure>;
}

/// How the bytes of a streamed response are cut into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events (docs/rules/wire/streams.md#sse-parsing).
    EventSource,
    /// AWS's binary event stream, with both checksums (docs/rules/wire/bedrock.md#frames).
    AwsEventStream,
}

/// A question for the number of tokens: a plain POST, answered with JSON.
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

    /// How its streams are cut.
    fn framing(&self) -> Framing {
        Framing::EventSource
    }

    /// The request's body, in pieces that are sent one after the other with an exact content length. Large pieces
    /// (the conversation) are shared, not copied.
    fn body(&self, request: &ModelRequest) -> Vec<Bytes>;

    /// What [`Self::body`] leaves out of what `request` asks, because the API has no field for it: each option by its name
    /// in the context. An option is written or reported here, never silently dropped.
    fn unsupported(&self, request: &ModelRequest) -> Vec<RunWarning>;

    /// How to ask how many tokens a request would have, where the API can count.
    fn count(&self, _request: &ModelRequest) -> Option<CountCall> {
        None
    }

    /// The tokens that an answer to [`Self::count`] reports; `None` for anything that is no such answer.
    fn counted(&self, _body: &[u8]) -> Option<u64> {
        None
    }

    /// See [`super::Provider::encode_messages`].
    fn encode_messages(&self, messages: &[Message]) -> Bytes;

    /// A fresh decoder for one response to a request of which nothing is known: every call is ours.
    fn decoder(&self) -> Box<dyn Decoder>;

    /// A fresh decoder for the response to `request`: a call of a tool that it did not offer is the provider's where the
    /// provider brings the result.
    fn decoder_for(&self, _request: &ModelRequest) -> Box<dyn Decoder> {
        self.decoder()
    }
}
