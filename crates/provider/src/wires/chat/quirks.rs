//! The differences between servers of this API, as data. `services` defines which service has which.
//!
//! The default is for unknown servers. It must never hold behaviour.

use model::{IdRule, TranscriptRules};

/// Which field caps the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensField {
    /// `max_completion_tokens` for reasoning models, else `max_tokens`.
    ByModel,
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// The role of the system prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemRole {
    /// `developer` for reasoning models, else `system`.
    ByModel,
    /// `system`.
    System,
    /// `developer`.
    Developer,
}

/// The reasoning field of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningField {
    /// `reasoning_effort: "high"`, for reasoning models only.
    Effort,
    /// `reasoning: {effort}`, `{max_tokens}` or `{enabled}` (OpenRouter).
    Object,
    /// `thinking: {type}` (DeepSeek, Z.ai, Moonshot).
    ThinkingType,
}

/// The field of the user's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserField {
    /// `safety_identifier` (OpenAI).
    SafetyIdentifier,
    /// `user`.
    User,
}

/// The differences between servers that speak this API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatQuirks {
    /// Which field caps the answer.
    pub max_tokens: MaxTokensField,
    /// The role of the system prompt.
    pub system_role: SystemRole,
    /// The reasoning field of a request.
    pub reasoning: ReasoningField,
    /// Whether `stream_options` may be sent; without it usage is sent by default or not at all.
    pub stream_options: bool,
    /// Whether reasoning is sent back in its own field (only to the server that sent it, docs/rules/projection.md#thinking).
    pub echo_reasoning: bool,
    /// Whether every assistant message with tool calls must have `reasoning_content`, even empty (DeepSeek, Moonshot).
    pub reasoning_content_required: bool,
    /// Whether a user message must not follow a tool message (Mistral): a short assistant message is inserted.
    pub bridge_after_tool: bool,
    /// The transcript rules beyond the API.
    pub transcript: TranscriptRules,
    /// The field of the user's id.
    pub user: UserField,
    /// Whether `prompt_cache_key` is supported.
    pub prompt_cache_key: bool,
    /// The maximum number of stop sequences; with a limit, reasoning models accept none.
    pub most_stops: Option<usize>,
    /// Whether vectors are requested from Ollama's own API.
    pub ollama_embeddings: bool,
}

impl Default for ChatQuirks {
    fn default() -> Self {
        Self::STANDARD
    }
}

impl ChatQuirks {
    /// An unknown server.
    pub const STANDARD: Self = Self {
        max_tokens: MaxTokensField::ByModel,
        system_role: SystemRole::ByModel,
        reasoning: ReasoningField::Effort,
        stream_options: true,
        echo_reasoning: true,
        reasoning_content_required: false,
        bridge_after_tool: false,
        transcript: TranscriptRules { ids: IdRule::OfApi, system_messages_anywhere: true },
        user: UserField::User,
        prompt_cache_key: false,
        most_stops: None,
        ollama_embeddings: false,
    };

    /// OpenAI itself, with its newest fields.
    pub const OPENAI: Self = Self {
        user: UserField::SafetyIdentifier,
        prompt_cache_key: true,
        most_stops: Some(4),
        ..Self::STANDARD
    };

    /// Servers with OpenAI's old field names.
    pub const COMPATIBLE: Self = Self {
        max_tokens: MaxTokensField::MaxTokens,
        system_role: SystemRole::System,
        ..Self::STANDARD
    };

    /// Ollama.
    pub const OLLAMA: Self = Self { ollama_embeddings: true, ..Self::COMPATIBLE };

    /// OpenRouter.
    pub const OPENROUTER: Self = Self { reasoning: ReasoningField::Object, ..Self::COMPATIBLE };

    /// DeepSeek and Moonshot, which require their reasoning beside every call.
    pub const DEEPSEEK: Self = Self { reasoning_content_required: true, ..Self::ZAI };

    /// Z.ai.
    pub const ZAI: Self = Self { reasoning: ReasoningField::ThinkingType, ..Self::COMPATIBLE };

    /// Mistral: ids of nine characters, and no system message after other messages.
    pub const MISTRAL: Self = Self {
        stream_options: false,
        bridge_after_tool: true,
        transcript: TranscriptRules {
            ids: IdRule::NineAlphanumeric,
            system_messages_anywhere: false,
        },
        ..Self::COMPATIBLE
    };
}
