//! Content blocks: the typed parts of a message, in order.
//!
//! What a provider sent and wants back (signatures, encrypted reasoning, provider-run tools) is stored as the text it
//! came in. This file must never interpret those opaque values.

use serde::{Deserialize, Serialize};

/// What the host put into a user's message beside the text of its author (docs/rules/prompts.md#layers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum BlockOrigin {
    /// The event that the message came with.
    Event,
    /// What a memory returned for the message.
    Memory,
}

/// One part of a message. The JSON texts inside (`argumentsJson`, `rawJson`, `providerData`) are verbatim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Block {
    /// Visible text.
    Text {
        /// The text.
        text: String,
        /// JSON text of the provider's other fields of this part (citations, ids, phases), replayed verbatim.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_data: Option<String>,
        /// Set on a text that the host put into a user's message: it is sent as it is, and is no part of the message's `content`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<BlockOrigin>,
    },
    /// An image.
    Image {
        /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
        mime_type: String,
        /// The bytes in base64.
        data: String,
    },
    /// Reasoning the provider showed. Replayed only with its signature, to the same provider, API and model (docs/rules/projection.md#thinking).
    Thinking {
        /// The reasoning text; may be empty where the provider shows only a signature.
        thinking: String,
        /// The provider's signature, byte for byte.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// JSON text of the provider's other fields (reasoning details, the name of the field).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_data: Option<String>,
    },
    /// Reasoning the provider encrypted.
    RedactedThinking {
        /// The encrypted text, byte for byte.
        data: String,
        /// JSON text of the provider's other fields, replayed verbatim.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_data: Option<String>,
    },
    /// The model calls a tool.
    ToolCall {
        /// The provider's id of the call; unique only within its message.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments as the provider sent them: JSON text, not yet validated.
        arguments_json: String,
        /// True when the response ended before this block closed; such a call is never run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[cfg_attr(feature = "testing", ts(optional, as = "Option<bool>"))]
        incomplete: bool,
        /// JSON text of the provider's other fields (a thought signature).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_data: Option<String>,
    },
    /// The result of a tool call.
    ToolResult {
        /// The provider's id of the call.
        tool_call_id: String,
        /// The tool's name.
        tool_name: String,
        /// Text and image blocks.
        content: Vec<Block>,
        /// True when the tool failed; the content then gives the reason.
        is_error: bool,
    },
    /// A block that only its provider understands (a web search it ran); replayed verbatim.
    Opaque {
        /// The block's JSON text.
        raw_json: String,
    },
}

impl Block {
    /// A plain text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), provider_data: None, origin: None }
    }

    /// A text that the host put into a user's message.
    #[must_use]
    pub fn injected(origin: BlockOrigin, text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), provider_data: None, origin: Some(origin) }
    }

    /// The text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Image { .. }
            | Self::Thinking { .. }
            | Self::RedactedThinking { .. }
            | Self::ToolCall { .. }
            | Self::ToolResult { .. }
            | Self::Opaque { .. } => None,
        }
    }

    /// The text of a text block that the author of its message wrote.
    #[must_use]
    pub fn own_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, origin: None, .. } => Some(text),
            Self::Text { .. }
            | Self::Image { .. }
            | Self::Thinking { .. }
            | Self::RedactedThinking { .. }
            | Self::ToolCall { .. }
            | Self::ToolResult { .. }
            | Self::Opaque { .. } => None,
        }
    }

    /// Whether it is a tool result.
    #[must_use]
    pub fn is_result(&self) -> bool {
        matches!(self, Self::ToolResult { .. })
    }
}
