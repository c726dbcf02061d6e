//! The target of a transcript, and the rules of its API.
//!
//! It must never read the content of a message: only its provenance and its end.

use model::{Api, Message, Provenance, Role, TranscriptRules};

/// The target of a transcript: it decides whether opaque values may be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The wire API.
    pub api: Api,
    /// The provider's name in the engine's options.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The transcript rules of the server beyond its API.
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

    /// Whether a system message may be anywhere in the transcript; otherwise it is sent as a marked user message.
    pub(super) fn takes_system(&self) -> bool {
        match self.api {
            Api::AnthropicMessages | Api::GoogleGenerativeAi | Api::BedrockConverse => false,
            Api::OpenaiChat | Api::OpenaiResponses | Api::Scripted => {
                self.rules.system_messages_anywhere
            }
        }
    }

    /// Whether a tool loop must begin with its thinking (docs/rules/projection.md#tool-loops-of-another-model).
    pub(super) fn requires_thinking_in_loops(&self) -> bool {
        match self.api {
            Api::AnthropicMessages | Api::BedrockConverse => true,
            Api::OpenaiChat | Api::OpenaiResponses | Api::GoogleGenerativeAi | Api::Scripted => {
                false
            }
        }
    }

    /// Whether the API continues its own paused answer when it is the last message.
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

/// Whether the provider paused and expects its answer back (docs/rules/projection.md#adjacent-answers).
pub(super) fn is_paused(answer: &Message) -> bool {
    answer.role == Role::Assistant
        && matches!(answer.provider_stop_reason.as_deref(), Some("pause_turn" | "CONTINUATION"))
}
