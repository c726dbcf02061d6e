//! Providers: one attempt is one complete response or one typed failure.
//!
//! Owns HTTP, framing, authentication, error classification, and one folder per API. It must never know turns or tools,
//! retry, or decide anything about a run.

mod auth;
mod classify;
mod embeddings;
mod framing;
mod hook;
mod http;
mod image;
mod json;
mod members;
mod options;
mod paths;
mod provider;
#[cfg(test)]
mod recorded;
mod redact;
mod request;
mod scripted;
mod services;
mod wire;
mod wires;

pub use auth::keys::{HostKey, KeyFuture, KeyHost, KeyProfile, ProviderKeys};
pub use auth::profile::{AuthKey, AuthProfile, AwsKey, KeyText};
pub use classify::http_failure;
pub use embeddings::{EmbedAnswer, EmbedApi, EmbedInput, Embedding};
pub use framing::eventstream::FrameParser;
pub use framing::sse::{SseParser, StreamReader};
pub use hook::{Inspected, OutgoingRequest, RequestHook, RequestHost};
pub use http::{
    Endpoint, EndpointAnswer, EndpointSettings, EndpointToken, HttpClient, HttpProvider, Sent,
    TurnHeaders,
};
pub use model::{Api, BlockStart, Completion, Delta, DeltaSink, Failure, ReportedUsage, Stop};
pub use options::{
    ProviderOptions, ProviderSet, ProviderSettings, parse_hosted_providers, parse_providers,
};
pub use provider::{Attempted, Counted, Provider};
pub use redact::KnownKeys;
pub use request::{Credential, ModelRequest, cache_key};
pub use scripted::{
    Script, ScriptedCall, ScriptedError, ScriptedParts, ScriptedProvider, ScriptedReplies,
    ScriptedReply, ScriptedRequest, ScriptedStep, ScriptedStop, ScriptedUsage,
};
pub use wire::{Decoder, Flow, Framing, Wire};
pub use wires::anthropic::AnthropicWire;
pub use wires::bedrock::BedrockWire;
pub use wires::chat::ChatWire;
pub use wires::google::GoogleWire;
pub use wires::responses::ResponsesWire;
pub use wires::wire_of;

pub(crate) use request::OfferedTools;
pub(crate) use wire::CountCall;
pub(crate) use wires::chat::ChatQuirks;
