//! What the models behind Converse take and refuse, by their ids: data. It must never guess at a model it does not know.

/// How a model is asked to reason: each maker has fields of its own beside Converse's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reasoning {
    /// `thinking`, as Anthropic's own API has it.
    Thinking,
    /// `reasoningConfig` with an effort.
    Config,
    /// `reasoning_effort`.
    Effort,
    /// Nothing is known that it takes.
    Nothing,
}

/// Where a model takes cache points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caching {
    /// After the tools, besides the system prompt and messages.
    pub(super) tools: bool,
    /// Kept for an hour, where that is asked for.
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

/// The fields a model's reasoning is asked for with. A custom ARN does not name the model; a host that asks one to
/// think has Claude behind it.
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

/// Where a model takes cache points; `None` where it takes none.
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

/// Whether a model takes the `status` of a tool's result; others refuse a request that has one.
pub(super) fn takes_status(model: &str) -> bool {
    is_claude(model) || model.contains("amazon.nova")
}

fn is_claude(model: &str) -> bool {
    model.contains("anthropic.claude")
}
