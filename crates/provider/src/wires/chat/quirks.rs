//! What differs between servers of this API, as data. Which service has which is in `provider/services`.
//!
//! The default is right for servers nothing is known of. It must never hold behaviour.

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

/// Which role the system prompt has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemRole {
    /// `developer` for reasoning models, else `system`.
    ByModel,
    /// `system`.
    System,
    /// `developer`.
    Developer,
}

/// How to ask for reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningField {
    /// `reasoning_effort: "high"`, for reasoning models only.
    Effort,
    /// `reasoning: {effort}`, `{max_tokens}` or `{enabled}` (OpenRouter).
    Object,
    /// `thinking: {type}` (DeepSeek, Z.ai, Moonshot).
    ThinkingType,
}

/// Where the user's id goes.
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
    /// Which role the system prompt has.
    pub system_role: SystemRole,
    /// How to ask for reasoning.
    pub reasoning: ReasoningField,
    /// Whether `stream_options` may be sent; without it usage comes by itself or not at all.
    pub stream_options: bool,
    /// Whether reasoning goes back in the field it came in (only ever to the server it came from, docs/rules/projection.md#thinking).
    pub echo_reasoning: bool,
    /// Whether `reasoning_content` must stand on every assistant message with tool calls, even empty (DeepSeek, Moonshot).
    pub reasoning_content_required: bool,
    /// Whether a user message may not follow a tool message (Mistral): a short assistant message goes between.
    pub bridge_after_tool: bool,
    /// What transcripts must look like beyond the API.
    pub transcript: TranscriptRules,
    /// Where the user's id goes.
    pub user: UserField,
    /// Whether `prompt_cache_key` is known.
    pub prompt_cache_key: bool,
    /// The most stop sequences; reasoning models then take none.
    pub most_stops: Option<usize>,
}

impl Default for ChatQuirks {
    fn default() -> Self {
        Self::STANDARD
    }
}

impl ChatQuirks {
    /// A server nothing is known of.
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
    };

    /// OpenAI itself: the one that has its newest fields.
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

    /// OpenRouter.
    pub const OPENROUTER: Self = Self { reasoning: ReasoningField::Object, ..Self::COMPATIBLE };

    /// DeepSeek and Moonshot, which want their reasoning back beside every call.
    pub const DEEPSEEK: Self = Self { reasoning_content_required: true, ..Self::ZAI };

    /// Z.ai.
    pub const ZAI: Self = Self { reasoning: ReasoningField::ThinkingType, ..Self::COMPATIBLE };

    /// Mistral: ids of nine characters, and no system message after the first others.
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
