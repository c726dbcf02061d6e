//! One request, independent of the API, and its credential.
//!
//! It must never print a credential.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use secrecy::SecretString;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::auth::aws::AwsIdentity;
use super::json::Text;
use super::{EmbedInput, RequestHook, TurnHeaders};
use model::{RequestOptions, ThinkingConfig, ToolDefinition};

/// A key for one attempt. Its `Debug` shows the profile only.
#[derive(Clone)]
pub struct Credential {
    /// The auth profile's id.
    pub profile_id: String,
    /// The key or token.
    pub secret: SecretString,
    /// True for tokens that are sent as `authorization: Bearer`, whatever the API's own header is.
    pub bearer: bool,
    /// For AWS: the identity that `secret` signs for. The secret is then never sent.
    pub aws: Option<AwsIdentity>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("profile_id", &self.profile_id).finish_non_exhaustive()
    }
}

/// The content of a request.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest {
    /// The model's id.
    pub model: String,
    /// The system prompt; empty for none.
    pub system: String,
    /// The tools, in a stable order.
    pub tools: Arc<[ToolDefinition]>,
    /// The conversation: pieces of [`crate::Provider::encode_messages`], in order, none empty.
    pub messages: Vec<Bytes>,
    /// Whether the last piece is the conversation's open end: the messages of the user and the tools since the last answer.
    pub open_end: bool,
    /// The end of the previous user request, in bytes before the end of the pieces before the open end; only if so many blocks
    /// followed that a provider may not look back to it, or if there is no open end.
    pub earlier_end: Option<usize>,
    /// Cap of the answer in tokens.
    pub max_tokens: u64,
    /// Sampling temperature, already left out if the model refuses it.
    pub temperature: Option<f64>,
    /// How much to think.
    pub thinking: Option<ThinkingConfig>,
    /// The request options beside the conversation; each wire writes those that its API supports.
    pub options: Arc<RequestOptions>,
    /// Whether the run's tool choice forces a call. It stays true after the call was made, when `options` leaves the choice to
    /// the model: settings that a provider refuses beside such a choice are left out for the whole tool loop.
    pub forces_tool: bool,
    /// The routing key of requests with the same prefix, for APIs that use one; `None` with the cache off. Never the session's
    /// label itself: see [`cache_key`].
    pub cache_key: Option<String>,
    /// The turn's own headers.
    pub headers: TurnHeaders,
    /// The hook that inspects the body before it is sent.
    pub hook: Option<RequestHook>,
    /// Whether the model reasons: Chat Completions then requires `max_completion_tokens` and `developer` prompts.
    pub reasoning_model: bool,
    /// The texts of a request for vectors, in place of a conversation.
    pub embed: Option<Arc<EmbedInput>>,
}

impl ModelRequest {
    /// The body in pieces: `head`, the messages with commas between them, `tail`.
    pub(super) fn framed(&self, head: Bytes, tail: Bytes) -> Vec<Bytes> {
        let mut pieces = Vec::with_capacity(self.messages.len() * 2 + 2);
        pieces.push(head);
        for (position, piece) in self.messages.iter().enumerate() {
            if position > 0 {
                pieces.push(Bytes::from_static(b","));
            }
            pieces.push(piece.clone());
        }
        pieces.push(tail);
        pieces
    }

    /// The position of [`Self::earlier_end`]: the piece, and the offset in it.
    pub(super) fn earlier_position(&self) -> Option<(usize, usize)> {
        let mut back = self.earlier_end?;
        let closed = self.messages.len().saturating_sub(usize::from(self.open_end));
        for (at, piece) in self.messages.get(..closed)?.iter().enumerate().rev() {
            if let Some(end) = piece.len().checked_sub(back) {
                return Some((at, end));
            }
            // There is a comma between two pieces.
            back = back.checked_sub(piece.len() + 1)?;
        }
        None
    }

    /// Its tools, for the decoder of the answer.
    pub(super) fn offered(&self) -> OfferedTools {
        OfferedTools { by: Some((Arc::clone(&self.tools), Arc::clone(&self.options))) }
    }

    /// Whether the model has tools, of the context or of the provider.
    pub(crate) fn has_tools(&self) -> bool {
        !self.tools.is_empty() || !self.options.provider_tools.is_empty()
    }
}

/// The tools of a request: they distinguish the context's tool calls from calls that the provider runs itself. By default
/// the request is unknown, and every call is one of the context's.
#[derive(Debug, Clone, Default)]
pub(super) struct OfferedTools {
    by: Option<(Arc<[ToolDefinition]>, Arc<RequestOptions>)>,
}

impl OfferedTools {
    /// Whether a call with this name is certainly of a tool of the context. Another one may be the provider's: then the
    /// provider sends its result.
    pub(super) fn has(&self, name: &str) -> bool {
        self.by.as_ref().is_none_or(|(tools, _)| tools.iter().any(|tool| tool.name == name))
    }

    /// Whether the provider may run a tool with this name: it has tools of its own, and the host's descriptions do not assign
    /// this one to the client.
    pub(super) fn has_provider_run(&self, name: &str) -> bool {
        #[derive(Deserialize)]
        struct Described<'a> {
            #[serde(borrow, default, rename = "type")]
            kind: Text<'a>,
            #[serde(borrow, default)]
            name: Text<'a>,
        }
        let Some((_, options)) = &self.by else { return false };
        let described = || {
            let tools = options.provider_tools.iter();
            tools.filter_map(|raw| serde_json::from_str::<Described<'_>>(raw.get()).ok())
        };
        let is_left = |tool: &Described<'_>| matches!(tool.kind.as_str(), "function" | "custom");
        let is_named = |tool: &Described<'_>| tool.name.as_str() == name;
        described().any(|tool| !is_left(&tool))
            && !described().any(|it| is_left(&it) && is_named(&it))
    }
}

/// The cache key of a session without one: the same in every process; it does not reveal the label.
#[must_use]
pub fn cache_key(session_label: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(b"nexus-agent-engine prompt cache\0");
    digest.update(session_label.as_bytes());
    let mut key = String::with_capacity(35);
    key.push_str("nx-");
    for byte in digest.finalize().iter().take(16) {
        // Writing to a string cannot fail.
        let _ = write!(key, "{byte:02x}");
    }
    key
}

#[cfg(test)]
mod tests {
    use super::cache_key;

    #[test]
    fn a_cache_key_is_stable_and_does_not_show_its_session() {
        let key = cache_key("agent:main:dm:+491701234567");
        assert_eq!(key, cache_key("agent:main:dm:+491701234567"));
        assert_ne!(key, cache_key("agent:main:dm:+491701234568"));
        assert_eq!(key.len(), 35);
        assert!(key.strip_prefix("nx-").unwrap().bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
