//! The seam between HTTP and the APIs: what each wire API provides, all of it pure.
//!
//! It must never do I/O: `http` moves the bytes, the API folders only encode and decode them.

use bytes::Bytes;

use super::{Api, Completion, DeltaSink, Failure, ModelRequest};
use crate::model::Message;

/// Whether a decoder wants more events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    More,
    /// The protocol's terminal event was seen; what follows is ignored.
    End,
}

/// Decodes one response of one API. Tolerant of unknown, duplicated and reordered events (FAULTS §1).
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

/// One wire API.
pub trait Wire: Send + Sync {
    /// Its name.
    fn api(&self) -> Api;

    /// The path below the base URL, beginning with a slash.
    fn path(&self, request: &ModelRequest) -> String;

    /// The request's body, in pieces that are sent one after the other with an exact content length. Large pieces
    /// (the conversation) are shared, not copied.
    fn body(&self, request: &ModelRequest) -> Vec<Bytes>;

    /// See [`super::Provider::encode_messages`].
    fn encode_messages(&self, messages: &[Message]) -> Bytes;

    /// A fresh decoder for one response.
    fn decoder(&self) -> Box<dyn Decoder>;
}
