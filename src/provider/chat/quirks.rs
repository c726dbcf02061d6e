//! What differs between servers of this API, as data.
//!
//! The default is right for OpenAI and for servers nothing is known of. It must never hold behaviour.

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
    /// Whether reasoning goes back in the field it came in (only ever to the server it came from, RULES §4).
    pub echo_reasoning: bool,
    /// Whether `reasoning_content` must stand on every assistant message with tool calls, even empty (DeepSeek, Moonshot).
    pub reasoning_content_required: bool,
    /// Whether a user message may not follow a tool message (Mistral): a short assistant message goes between.
    pub bridge_after_tool: bool,
}

const STANDARD: ChatQuirks = ChatQuirks {
    max_tokens: MaxTokensField::ByModel,
    system_role: SystemRole::ByModel,
    reasoning: ReasoningField::Effort,
    stream_options: true,
    echo_reasoning: true,
    reasoning_content_required: false,
    bridge_after_tool: false,
};

/// Servers with OpenAI's old field names.
const COMPATIBLE: ChatQuirks = ChatQuirks {
    max_tokens: MaxTokensField::MaxTokens,
    system_role: SystemRole::System,
    ..STANDARD
};

/// Hosts by suffix; the first match wins.
const HOSTS: &[(&str, ChatQuirks)] = &[
    ("openrouter.ai", ChatQuirks { reasoning: ReasoningField::Object, ..COMPATIBLE }),
    (
        "deepseek.com",
        ChatQuirks {
            reasoning: ReasoningField::ThinkingType,
            reasoning_content_required: true,
            ..COMPATIBLE
        },
    ),
    (
        "moonshot.ai",
        ChatQuirks {
            reasoning: ReasoningField::ThinkingType,
            reasoning_content_required: true,
            ..COMPATIBLE
        },
    ),
    (
        "moonshot.cn",
        ChatQuirks {
            reasoning: ReasoningField::ThinkingType,
            reasoning_content_required: true,
            ..COMPATIBLE
        },
    ),
    ("z.ai", ChatQuirks { reasoning: ReasoningField::ThinkingType, ..COMPATIBLE }),
    ("bigmodel.cn", ChatQuirks { reasoning: ReasoningField::ThinkingType, ..COMPATIBLE }),
    ("mistral.ai", ChatQuirks { stream_options: false, bridge_after_tool: true, ..COMPATIBLE }),
    ("groq.com", COMPATIBLE),
    ("x.ai", COMPATIBLE),
    ("cerebras.ai", COMPATIBLE),
    ("together.xyz", COMPATIBLE),
    ("fireworks.ai", COMPATIBLE),
    ("perplexity.ai", COMPATIBLE),
    ("huggingface.co", COMPATIBLE),
    ("googleapis.com", COMPATIBLE),
    ("localhost", COMPATIBLE),
    ("127.0.0.1", COMPATIBLE),
];

impl Default for ChatQuirks {
    fn default() -> Self {
        STANDARD
    }
}

impl ChatQuirks {
    /// What is known of a base URL's host; the default where nothing is.
    #[must_use]
    pub fn for_host(host: &str) -> Self {
        let host = host.to_ascii_lowercase();
        HOSTS
            .iter()
            .find(|(suffix, _)| {
                host.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            })
            .map_or(STANDARD, |(_, quirks)| *quirks)
    }
}
