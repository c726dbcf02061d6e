//! The names of the wire APIs, and what a server asks of transcripts: what decides projection and provenance. It must never
//! know their formats.

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

/// What a server asks of transcripts beyond its API (docs/rules/wire/openai-chat.md#compatible-servers).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranscriptRules {
    /// What ids of tool calls look like.
    pub ids: IdRule,
    /// Whether a `system` message may stand anywhere; else it travels as the user's, marked.
    pub system_messages_anywhere: bool,
}

impl Default for TranscriptRules {
    fn default() -> Self {
        Self { ids: IdRule::OfApi, system_messages_anywhere: true }
    }
}

/// What ids of tool calls look like on the wire (docs/rules/projection.md#call-ids).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdRule {
    /// As the API itself takes them.
    OfApi,
    /// Exactly nine letters or digits (Mistral).
    NineAlphanumeric,
}
