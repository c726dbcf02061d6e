//! The catalogue's entry of one model: limits, capabilities, prices, and the cost of a call.
//!
//! It must never turn an unknown price into 0: a cost is known in full or it is `None` (docs/rules/abort-usage.md#cost).

use serde::{Deserialize, Serialize};

use super::thinking::{self, ThinkingCapability};
use crate::{Api, ThinkingConfig, TokenUsage};

/// One model at one provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelInfo {
    /// The provider: `anthropic`, `openrouter`, …; `open` for weights that anyone may serve.
    pub provider: String,
    /// The name in requests. After a resolution by suffix this is the catalogue's name, not the requested one.
    pub id: String,
    /// The wire API the provider speaks for it: `anthropic-messages`, `openai-chat`, `openai-responses`,
    /// `google-generative-ai` or `bedrock-converse`; null where a declaration left it open.
    pub api: Option<String>,
    /// The name for people.
    pub name: String,
    /// Tokens of prompt and answer together.
    pub context_window: u64,
    /// Tokens of prompt, where the provider caps them below the window.
    #[serde(default)]
    pub max_input_tokens: Option<u64>,
    /// Tokens of one answer, thinking included.
    pub max_output_tokens: u64,
    /// What a prompt may contain.
    #[serde(default = "text_only")]
    pub input: Vec<Modality>,
    /// Whether it can think.
    #[serde(default)]
    pub reasoning: bool,
    /// Which thinking settings it supports; null where it cannot think or where that is unknown.
    #[serde(default)]
    pub thinking: Option<ThinkingCapability>,
    /// False where the provider refuses a temperature: leave the field out then.
    #[serde(default = "yes")]
    pub temperature: bool,
    /// Prices; null where they are unknown.
    #[serde(default)]
    pub cost: Option<ModelCost>,
    /// Other names of the same model at this provider.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The day the provider stops serving it, `YYYY-MM-DD`, where announced.
    #[serde(default)]
    pub retires: Option<String>,
    /// The source of the facts: a key of the data file's `sources`, `declared`, or `assumed`.
    #[serde(default = "default_source")]
    pub source: String,
}

/// A kind of prompt content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names describe them")]
pub enum Modality {
    Text,
    Image,
}

/// Prices in US dollars per million tokens. A price that is null is unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelCost {
    /// Prompt tokens outside the cache.
    pub input: f64,
    /// Generated tokens, thinking included.
    pub output: f64,
    /// Prompt tokens read from the cache.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// Prompt tokens written to the cache for its usual time (5 minutes at Anthropic).
    #[serde(default)]
    pub cache_write: Option<f64>,
    /// Prompt tokens written to the cache for an hour.
    #[serde(default)]
    pub cache_write_1h: Option<f64>,
    /// Other prices for long prompts.
    #[serde(default)]
    pub tiers: Vec<CostTier>,
}

/// The prices of a call with a prompt longer than a step. They apply to all of its tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CostTier {
    /// The step, in tokens of prompt, cached ones included.
    pub input_tokens_above: u64,
    /// As [`ModelCost::input`].
    pub input: f64,
    /// As [`ModelCost::output`].
    pub output: f64,
    /// As [`ModelCost::cache_read`].
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// As [`ModelCost::cache_write`].
    #[serde(default)]
    pub cache_write: Option<f64>,
    /// As [`ModelCost::cache_write_1h`].
    #[serde(default)]
    pub cache_write_1h: Option<f64>,
}

/// The output cap of an unknown model: low enough for every model in use, high enough for a tool call.
const ASSUMED_OUTPUT_TOKENS: u64 = 8_192;

impl ModelInfo {
    /// The thinking setting to send where the host requests `requested` and caps the answer at `max_tokens`: one that the model
    /// supports, or none.
    #[must_use]
    pub fn thinking_for(
        &self,
        requested: &ThinkingConfig,
        max_tokens: u64,
    ) -> Option<ThinkingConfig> {
        thinking::fit(requested, self.thinking.as_ref(), max_tokens)
    }

    /// The entry of an unknown model with the window that the host declared: text only, no thinking, no price.
    #[must_use]
    pub fn safe_defaults(provider: &str, api: Api, id: &str, context_window: u64) -> Self {
        Self {
            provider: provider.to_owned(),
            id: id.to_owned(),
            api: Some(api.as_str().to_owned()),
            name: id.to_owned(),
            context_window,
            max_input_tokens: None,
            max_output_tokens: assumed_output(context_window),
            input: text_only(),
            reasoning: false,
            thinking: None,
            temperature: true,
            cost: None,
            aliases: Vec::new(),
            retires: None,
            source: "assumed".to_owned(),
        }
    }

    /// The maximum number of tokens of a prompt.
    #[must_use]
    pub fn prompt_limit(&self) -> u64 {
        self.max_input_tokens.unwrap_or(self.context_window).min(self.context_window)
    }

    /// The cost of one call in US dollars, or `None` where a price it needs is unknown.
    ///
    /// `usage` is that of one call: price tiers depend on the prompt of a call, so a turn's cost is the sum over its calls.
    /// `hour_writes` is the part of `cacheWriteTokens` that was written for an hour, 0 where none was.
    #[must_use]
    pub fn cost_of(&self, usage: &TokenUsage, hour_writes: u64) -> Option<f64> {
        self.cost.as_ref()?.of_call(usage, hour_writes)
    }

    /// Whether requests of `api` reach this model. OpenAI serves its models over both of its APIs.
    pub(super) fn answers(&self, api: Api) -> bool {
        match api {
            Api::OpenaiChat | Api::OpenaiResponses => {
                matches!(self.api.as_deref(), Some("openai-chat" | "openai-responses"))
            }
            // Claude is available over Converse too.
            Api::BedrockConverse => {
                matches!(self.api.as_deref(), Some("bedrock-converse" | "anthropic-messages"))
            }
            Api::AnthropicMessages | Api::GoogleGenerativeAi | Api::Scripted => {
                self.api.as_deref() == Some(api.as_str())
            }
        }
    }
}

impl ModelCost {
    fn of_call(&self, usage: &TokenUsage, hour_writes: u64) -> Option<f64> {
        let prompt = usage
            .input_tokens
            .saturating_add(usage.cached_input_tokens)
            .saturating_add(usage.cache_write_tokens);
        let tier = self
            .tiers
            .iter()
            .filter(|tier| prompt > tier.input_tokens_above)
            .max_by_key(|tier| tier.input_tokens_above);
        match tier {
            Some(tier) => tier.rates().at_these_rates(usage, hour_writes),
            None => self.at_these_rates(usage, hour_writes),
        }
    }

    fn at_these_rates(&self, usage: &TokenUsage, hour_writes: u64) -> Option<f64> {
        let hour = hour_writes.min(usage.cache_write_tokens);
        let parts = [
            (usage.input_tokens, Some(self.input)),
            (usage.output_tokens, Some(self.output)),
            (usage.cached_input_tokens, self.cache_read),
            (usage.cache_write_tokens - hour, self.cache_write),
            (hour, self.cache_write_1h),
        ];
        let mut millionths = 0.0;
        for (tokens, price) in parts.into_iter().filter(|(tokens, _)| *tokens > 0) {
            millionths += tokens as f64 * price?;
        }
        Some(millionths / 1e6)
    }

    /// Every known price with the name of its field.
    pub(super) fn prices(&self) -> impl Iterator<Item = (String, f64)> + '_ {
        let tiers = self.tiers.iter().enumerate().flat_map(|(index, tier)| {
            tier.rates()
                .own_prices()
                .map(move |(field, price)| (format!("tiers[{index}].{field}"), price))
        });
        self.own_prices().map(|(field, price)| (field.to_owned(), price)).chain(tiers)
    }

    fn own_prices(&self) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        [
            ("input", Some(self.input)),
            ("output", Some(self.output)),
            ("cacheRead", self.cache_read),
            ("cacheWrite", self.cache_write),
            ("cacheWrite1h", self.cache_write_1h),
        ]
        .into_iter()
        .filter_map(|(field, price)| Some((field, price?)))
    }
}

impl CostTier {
    fn rates(&self) -> ModelCost {
        ModelCost {
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            cache_write_1h: self.cache_write_1h,
            tiers: Vec::new(),
        }
    }
}

/// The assumed output cap of a model with this window.
pub(super) fn assumed_output(context_window: u64) -> u64 {
    ASSUMED_OUTPUT_TOKENS.min(context_window / 4).max(1)
}

fn text_only() -> Vec<Modality> {
    vec![Modality::Text]
}

fn yes() -> bool {
    true
}

fn default_source() -> String {
    "default".to_owned()
}
