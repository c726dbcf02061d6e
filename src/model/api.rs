//! The names of the wire APIs: what decides projection and provenance. It must never know their formats.

use serde::{Deserialize, Serialize};

/// The wire APIs the engine speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub enum Api {
    /// Anthropic Messages.
    #[serde(rename = "anthropic-messages")]
    AnthropicMessages,
    /// OpenAI Chat Completions, and everything compatible with it.
    #[serde(rename = "openai-chat")]
    OpenaiChat,
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
            Self::Scripted => "scripted",
        }
    }
}
