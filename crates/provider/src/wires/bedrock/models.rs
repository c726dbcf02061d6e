//! What the models of Converse support and refuse, by their ids: data. It must never guess about an unknown model.

/// The reasoning fields of a model: each maker has its own beside Converse's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reasoning {
    /// `thinking`, as in Anthropic's own API.
    Thinking,
    /// `reasoningConfig` with an effort.
    Config,
    /// `reasoning_effort`.
    Effort,
    /// No known field.
    Nothing,
}

/// Where a model supports cache points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caching {
    /// After the tools, besides the system prompt and messages.
    pub(super) tools: bool,
    /// With a lifetime of an hour, on request.
    pub(super) hour: bool,
}

/// Claude models that cannot cache.
const CLAUDE_WITHOUT_CACHE: [&str; 7] = [
    "claude-v2",
    "claude-instant",
    "claude-3-sonnet",
    "claude-3-haiku",
    "claude-3-opus",
    "claude-3-5-sonnet-20240620",
    "claude-3-5-sonnet-20241022",
];

/// Claude models that cache a prompt for five minutes only.
const CLAUDE_WITHOUT_HOUR: [&str; 5] = [
    "claude-3-5-haiku",
    "claude-3-7",
    "claude-sonnet-4-2025",
    "claude-opus-4-2025",
    "claude-opus-4-1",
];

/// The reasoning fields of a model. A custom ARN does not name the model; if the host requests thinking of one, it is
/// treated as Claude.
pub(super) fn reasoning(model: &str) -> Reasoning {
    if is_claude(model) || model.starts_with("arn:") && !model.contains("amazon.nova") {
        Reasoning::Thinking
    } else if model.contains("amazon.nova-2") {
        Reasoning::Config
    } else if model.contains("openai.gpt-oss") {
        Reasoning::Effort
    } else {
        Reasoning::Nothing
    }
}

/// Where a model supports cache points; `None` for nowhere.
pub(super) fn caching(model: &str) -> Option<Caching> {
    let is_one_of = |ids: &[&str]| ids.iter().any(|id| model.contains(id));
    if is_claude(model) {
        let hour = !is_one_of(&CLAUDE_WITHOUT_HOUR);
        (!is_one_of(&CLAUDE_WITHOUT_CACHE)).then_some(Caching { tools: true, hour })
    } else {
        // Nova refuses cache points among its tools.
        model.contains("amazon.nova").then_some(Caching { tools: false, hour: false })
    }
}

/// Whether a model supports the `status` of a tool result; others refuse a request with one.
pub(super) fn takes_status(model: &str) -> bool {
    is_claude(model) || model.contains("amazon.nova")
}

fn is_claude(model: &str) -> bool {
    model.contains("anthropic.claude")
}
