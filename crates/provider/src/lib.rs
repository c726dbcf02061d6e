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
mod provider;
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
pub use hook::{Looked, OutgoingRequest, RequestHook, RequestHost};
pub use http::{HttpClient, HttpProvider, HttpSettings, Timeouts, TurnHeaders};
pub use keys::{HostKey, KeyFuture, KeyHost, KeyProfile, ProviderKeys};
pub use model::{Api, BlockStart, Completion, Delta, DeltaSink, Failure, ReportedUsage, Stop};
pub use options::{
    ProviderOptions, ProviderSet, ProviderSettings, parse_hosted_providers, parse_providers,
};
pub use provider::{Attempted, Counted, Provider};
use request::OfferedTools;
pub use request::{Credential, ModelRequest, cache_key};
pub use responses::ResponsesWire;
pub use scripted::{
    Script, ScriptedCall, ScriptedError, ScriptedParts, ScriptedProvider, ScriptedReplies,
    ScriptedReply, ScriptedRequest, ScriptedStep, ScriptedStop, ScriptedUsage,
};
pub use wire::{CountCall, Decoder, Flow, Framing, Wire};
pub use wires::wire_of;
