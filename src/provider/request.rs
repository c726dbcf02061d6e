//! One request, neutral of the API, and the credential it is sent with.
//!
//! It must never print a credential.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use secrecy::SecretString;

use crate::model::{ThinkingConfig, ToolDefinition};

/// A key for one attempt. Its `Debug` shows the profile only.
#[derive(Clone)]
pub struct Credential {
    /// The auth profile's id.
    pub profile_id: String,
    /// The key or token.
    pub secret: SecretString,
    /// True for tokens that travel as `authorization: Bearer` whatever the API's own header is.
    pub bearer: bool,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("profile_id", &self.profile_id).finish_non_exhaustive()
    }
}

/// What to ask.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The model's id.
    pub model: String,
    /// The system prompt; empty for none.
    pub system: String,
    /// The tools on offer, in a stable order.
    pub tools: Arc<[ToolDefinition]>,
    /// The conversation: pieces of [`super::Provider::encode_messages`], in order, none empty.
    pub messages: Vec<Bytes>,
    /// Cap of the answer in tokens.
    pub max_tokens: u64,
    /// Sampling temperature, already left out where the model refuses it.
    pub temperature: Option<f64>,
    /// How much to think.
    pub thinking: Option<ThinkingConfig>,
    /// Whether the model reasons: Chat Completions then takes `max_completion_tokens` and `developer` prompts.
    pub reasoning_model: bool,
}
