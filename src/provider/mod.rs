//! Providers: one attempt is one complete response or one typed failure.
//!
//! Owns the wire: HTTP, SSE, authentication, error classification, and one folder per API. It must never know turns or
//! tools, retry, or decide anything about a run.

pub mod anthropic;
mod auth;
mod chat;
pub(crate) mod classify;
mod http;
pub mod json;
mod options;
#[cfg(test)]
mod recorded;
mod redact;
mod request;
mod scripted;
pub mod sse;
mod wire;

pub use crate::model::{
    Api, BlockStart, Completion, Delta, DeltaSink, Failure, ReportedUsage, Stop,
};
pub use anthropic::AnthropicWire;
pub use auth::{AuthKey, AuthProfile, AuthType};
pub use chat::{ChatQuirks, ChatWire, MaxTokensField, ReasoningField, SystemRole};
pub use http::{HttpClient, HttpProvider, HttpSettings, Timeouts};
pub use options::{ProviderOptions, ProviderSet, ProviderSettings, parse_providers};
pub use request::{Credential, ModelRequest};
pub use scripted::{
    Script, ScriptedCall, ScriptedError, ScriptedParts, ScriptedProvider, ScriptedReplies,
    ScriptedReply, ScriptedRequest, ScriptedStep, ScriptedStop, ScriptedUsage,
};
pub use wire::{Decoder, Flow, Wire};

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use crate::model::Message;

/// The outcome of one attempt.
pub type Attempted<'a> = Pin<Box<dyn Future<Output = Result<Completion, Failure>> + Send + 'a>>;

/// A model service that can be asked. Dropping the future of [`Provider::stream`] closes its socket.
pub trait Provider: Send + Sync {
    /// The API it speaks; decides projection (RULES §4) and provenance.
    fn api(&self) -> Api;

    /// Writes projected messages as the API's JSON message objects, separated by commas, without brackets. Pure: the same
    /// messages give the same bytes, so that a session's prefix can be kept (RULES §3, prompt-cache stability).
    fn encode_messages(&self, messages: &[Message]) -> Bytes;

    /// Asks once. Everything received goes to `sink` as it comes; what the sink got before a failure stays valid.
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        credential: Option<&'a Credential>,
        sink: &'a mut dyn DeltaSink,
    ) -> Attempted<'a>;
}
