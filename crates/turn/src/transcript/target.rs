//! Whom a transcript is for, and what that API takes where.
//!
//! It must never look into a message: only at who wrote it and how it ended.

use model::{Api, Message, Provenance, Role, TranscriptRules};

/// Whom a transcript is for: what decides whether opaque values may be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The wire API.
    pub api: Api,
    /// The provider's name in the engine's options.
    pub provider: String,
    /// The model that is asked.
    pub model: String,
    /// What this server asks of transcripts beyond its API.
    pub rules: TranscriptRules,
}

impl Target {
    pub(super) fn wrote(&self, provenance: Option<&Provenance>) -> bool {
        provenance.is_some_and(|from| {
            from.provider == self.provider
                && from.api == self.api.as_str()
                && from.model == self.model
        })
    }

    /// Whether a host's message may stand anywhere in the transcript; else it is the user's, and marked.
    pub(super) fn takes_system(&self) -> bool {
        match self.api {
            Api::AnthropicMessages | Api::GoogleGenerativeAi | Api::BedrockConverse => false,
            Api::OpenaiChat | Api::OpenaiResponses | Api::Scripted => {
                self.rules.system_messages_anywhere
            }
        }
    }

    /// Whether a tool loop must begin with the thinking that led to it (docs/rules/projection.md#tool-loops-of-another-model).
    pub(super) fn wants_thinking_in_loops(&self) -> bool {
        match self.api {
            Api::AnthropicMessages | Api::BedrockConverse => true,
            Api::OpenaiChat | Api::OpenaiResponses | Api::GoogleGenerativeAi | Api::Scripted => {
                false
            }
        }
    }

    /// Whether the API goes on with an answer of its own that paused, when it gets it back as the last message.
    pub(super) fn continues(&self, answer: &Message) -> bool {
        let api_pauses = match self.api {
            Api::AnthropicMessages | Api::Scripted => true,
            Api::OpenaiChat
            | Api::OpenaiResponses
            | Api::GoogleGenerativeAi
            | Api::BedrockConverse => false,
        };
        api_pauses && is_paused(answer) && self.wrote(answer.provenance.as_ref())
    }
}

/// Whether the provider stopped to be asked again with its answer so far (docs/rules/projection.md#answers-side-by-side).
pub(super) fn is_paused(answer: &Message) -> bool {
    answer.role == Role::Assistant
        && matches!(answer.provider_stop_reason.as_deref(), Some("pause_turn" | "CONTINUATION"))
}
