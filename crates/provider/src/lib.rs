//! Providers: one attempt is one complete response or one typed failure.
//!
//! Owns the wire: HTTP, SSE, authentication, error classification, and one folder per API. It must never know turns or
//! tools, retry, or decide anything about a run.

pub mod anthropic;
mod auth;
mod aws;
mod bedrock;
mod chat;
pub mod classify;
pub mod eventstream;
mod google;
mod hook;
mod http;
pub mod image;
pub mod json;
mod keys;
mod members;
mod options;
mod paths;
#[cfg(test)]
mod recorded;
mod redact;
mod request;
mod responses;
mod scripted;
mod services;
pub mod sse;
mod wire;
mod wires;

pub use anthropic::{AnthropicServer, AnthropicWire};
pub use auth::{AuthKey, AuthProfile, AwsKey, KeyText};
pub use aws::AwsIdentity;
pub use bedrock::BedrockWire;
pub use chat::{ChatQuirks, ChatWire, MaxTokensField, ReasoningField, SystemRole, UserField};
pub use google::{GooglePath, GoogleWire};
pub use hook::{Inspected, OutgoingRequest, RequestHook, RequestHost};
pub use http::{HttpClient, HttpProvider, HttpSettings, Timeouts, TurnHeaders};
pub use keys::{HostKey, KeyFuture, KeyHost, KeyProfile, ProviderKeys};
pub use model::{Api, BlockStart, Completion, Delta, DeltaSink, Failure, ReportedUsage, Stop};
pub use options::{
    ProviderOptions, ProviderSet, ProviderSettings, parse_hosted_providers, parse_providers,
};
use request::OfferedTools;
pub use request::{Credential, ModelRequest, cache_key};
pub use responses::ResponsesWire;
pub use scripted::{
    Script, ScriptedCall, ScriptedError, ScriptedParts, ScriptedProvider, ScriptedReplies,
    ScriptedReply, ScriptedRequest, ScriptedStep, ScriptedStop, ScriptedUsage,
};
pub use wire::{CountCall, Decoder, Flow, Framing, Wire};
pub use wires::wire_of;

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use model::{Message, RunWarning, TranscriptRules};

/// The outcome of one attempt.
pub type Attempted<'a> = Pin<Box<dyn Future<Output = Result<Completion, Failure>> + Send + 'a>>;

/// The outcome of a count: `None` where the API has no way to ask.
pub type Counted<'a> = Pin<Box<dyn Future<Output = Result<Option<u64>, Failure>> + Send + 'a>>;

/// A model service that can be asked. Dropping the future of [`Provider::stream`] closes its socket.
pub trait Provider: Send + Sync {
    /// The API it speaks; decides projection (docs/rules/projection.md#passes) and provenance.
    fn api(&self) -> Api;

    /// What the server asks of transcripts beyond its API.
    fn transcript_rules(&self) -> TranscriptRules {
        TranscriptRules::default()
    }

    /// Writes projected messages as the API's JSON message objects, separated by commas, without brackets. Pure: the same
    /// messages give the same bytes, so that a session's prefix can be kept (docs/rules/compaction.md#prompt-cache-stability).
    fn encode_messages(&self, messages: &[Message]) -> Bytes;

    /// Asks once. Everything received goes to `sink` as it comes; what the sink got before a failure stays valid.
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        credential: Option<&'a Credential>,
        sink: &'a mut dyn DeltaSink,
    ) -> Attempted<'a>;

    /// Closes the connections that are kept open for the next request, and those that were opened for none: a server that
    /// waits for its clients to leave would wait for them.
    fn disconnect(&self) {}

    /// What of `request` the API cannot say. See [`Wire::unsupported`].
    fn unsupported(&self, _request: &ModelRequest) -> Vec<RunWarning> {
        Vec::new()
    }

    /// Asks how many tokens the prompt of `request` has.
    fn count<'a>(
        &'a self,
        _request: &'a ModelRequest,
        _credential: Option<&'a Credential>,
    ) -> Counted<'a> {
        Box::pin(std::future::ready(Ok(None)))
    }
}
