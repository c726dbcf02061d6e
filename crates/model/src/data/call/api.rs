//! The names of the wire APIs, and the transcript rules of a server: both decide projection and provenance. It must never
//! know a wire format.

use serde::{Deserialize, Serialize};

/// The wire APIs the engine speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
pub enum Api {
    /// Anthropic Messages.
    #[serde(rename = "anthropic-messages")]
    AnthropicMessages,
    /// OpenAI Chat Completions, and everything compatible with it.
    #[serde(rename = "openai-chat")]
    OpenaiChat,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    OpenaiResponses,
    /// Google Gemini.
    #[serde(rename = "google-generative-ai")]
    GoogleGenerativeAi,
    /// Amazon Bedrock ConverseStream.
    #[serde(rename = "bedrock-converse")]
    BedrockConverse,
    /// The scripted provider of tests and demos.
    #[serde(rename = "scripted")]
    Scripted,
}

impl Api {
    /// The name used in options, provenance and the ledger.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic-messages",
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::GoogleGenerativeAi => "google-generative-ai",
            Self::BedrockConverse => "bedrock-converse",
            Self::Scripted => "scripted",
        }
    }
}

/// What a server requires of transcripts beyond its API (docs/rules/wire/openai-chat.md#compatible-servers).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranscriptRules {
    /// The form of tool call ids.
    pub ids: IdRule,
    /// Whether a `system` message may be anywhere; otherwise it is sent as a marked user message.
    pub system_messages_anywhere: bool,
}

impl Default for TranscriptRules {
    fn default() -> Self {
        Self { ids: IdRule::OfApi, system_messages_anywhere: true }
    }
}

/// The form of tool call ids on the wire (docs/rules/projection.md#call-ids).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdRule {
    /// As the API defines them.
    OfApi,
    /// Exactly nine letters or digits (Mistral).
    NineAlphanumeric,
}
