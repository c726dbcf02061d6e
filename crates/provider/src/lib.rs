//! Providers: one attempt is one complete response or one typed failure.
//!
//! Owns the wire: HTTP, SSE, authentication, error classification, and one folder per API. It must never know turns or
//! tools, retry, or decide anything about a run.

mod anthropic;
mod auth;
mod aws;
mod bedrock;
mod chat;
mod classify;
mod eventstream;
mod google;
mod hook;
mod http;
mod image;
mod json;
mod keys;
mod members;
mod options;
mod paths;
mod provider;
#[cfg(test)]
mod recorded;
mod redact;
mod request;
mod responses;
mod scripted;
mod services;
mod sse;
mod wire;
mod wires;

pub use anthropic::AnthropicWire;
pub use auth::{AuthKey, AuthProfile, AwsKey, KeyText};
pub use bedrock::BedrockWire;
pub use chat::ChatWire;
pub use classify::http_failure;
pub use eventstream::FrameParser;
pub use google::GoogleWire;
pub use hook::{Inspected, OutgoingRequest, RequestHook, RequestHost};
pub use http::{HttpClient, HttpProvider, TurnHeaders};
pub use keys::{HostKey, KeyFuture, KeyHost, KeyProfile, ProviderKeys};
pub use model::{Api, BlockStart, Completion, Delta, DeltaSink, Failure, ReportedUsage, Stop};
pub use options::{ProviderOptions, ProviderSettings, parse_hosted_providers, parse_providers};
pub use provider::{Attempted, Counted, Provider};
pub use request::{Credential, ModelRequest, cache_key};
pub use responses::ResponsesWire;
pub use scripted::{
    Script, ScriptedCall, ScriptedError, ScriptedParts, ScriptedProvider, ScriptedReplies,
    ScriptedReply, ScriptedRequest, ScriptedStep, ScriptedStop, ScriptedUsage,
};
pub use sse::{SseParser, StreamReader};
pub use wire::{Decoder, Flow, Framing, Wire};
pub use wires::wire_of;

pub(crate) use chat::ChatQuirks;
pub(crate) use request::OfferedTools;
pub(crate) use wire::CountCall;
