//! Models the host declares in its options: they override the built-in facts and add new models.
//!
//! It must never guess a price: a new model needs a window, and has no price unless the host declares one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Catalogue, Modality, ModelCost, ModelInfo, ThinkingCapability, info::assumed_output};
use crate::{Api, InputError, one_line};

/// A model as a host declares it. Missing fields have the catalogue's values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelDeclaration {
    /// The provider's name in the options.
    pub provider: String,
    /// The name in requests.
    pub id: String,
    /// The wire API: facts of the model at other providers of that API apply here too, except the price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tokens of prompt and answer together. Required where the catalogue does not have the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Tokens of prompt, where they are capped below the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<u64>,
    /// Tokens of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// What a prompt may contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Vec<Modality>>,
    /// Whether it can think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// Which thinking settings it supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ThinkingCapability>,
    /// False where the provider refuses a temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<bool>,
    /// Prices; 0 for a free model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<ModelCost>,
    /// Other names of the same model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aliases: Option<Vec<String>>,
}

impl ModelDeclaration {
    /// The declared model over its entry in `catalogue`.
    pub(super) fn over(self, catalogue: &Catalogue, path: &str) -> Result<ModelInfo, InputError> {
        for (field, value) in [("provider", &self.provider), ("id", &self.id)] {
            let path = format!("{path}.{field}");
            if value.is_empty() {
                return Err(InputError::new(path, "is empty"));
            }
            one_line(&path, value.clone())?;
        }
        for (index, alias) in self.aliases.iter().flatten().enumerate() {
            one_line(&format!("{path}.aliases[{index}]"), alias.clone())?;
        }
        let known = match self.api {
            Some(api) => catalogue.resolve_for(&self.provider, api, &self.id),
            None => catalogue.resolve(&self.provider, &self.id),
        };
        let mut model = match (known, self.context_window) {
            (Some(known), _) => Arc::unwrap_or_clone(known.model),
            (None, Some(window)) => unknown(&self, window),
            (None, None) => {
                return Err(InputError::new(
                    format!("{path}.contextWindow"),
                    format!(
                        "is missing, and `{}` is not in the catalogue; pass its window in tokens",
                        self.id
                    ),
                ));
            }
        };
        if model.id != self.id {
            // An entry found under another name of the model does not get this name as well.
            model.aliases.clear();
        }
        model.provider = self.provider;
        model.id = self.id;
        model.source = "declared".to_owned();
        if let Some(api) = self.api {
            model.api = Some(api.as_str().to_owned());
        }
        if let Some(window) = self.context_window {
            model.context_window = window;
            model.max_input_tokens = model.max_input_tokens.filter(|limit| *limit <= window);
            model.max_output_tokens = model.max_output_tokens.min(window);
        }
        if self.max_input_tokens.is_some() {
            model.max_input_tokens = self.max_input_tokens;
        }
        if self.thinking.is_some() {
            model.reasoning = true;
            model.thinking = self.thinking;
        }
        if self.reasoning == Some(false) {
            model.thinking = None;
        }
        if self.cost.is_some() {
            model.cost = self.cost;
        }
        set(&mut model.name, self.name);
        set(&mut model.max_output_tokens, self.max_output_tokens);
        set(&mut model.input, self.input);
        set(&mut model.reasoning, self.reasoning);
        set(&mut model.temperature, self.temperature);
        set(&mut model.aliases, self.aliases);
        checked(model, path)
    }
}

fn set<T>(field: &mut T, declared: Option<T>) {
    if let Some(value) = declared {
        *field = value;
    }
}

fn unknown(declared: &ModelDeclaration, window: u64) -> ModelInfo {
    let api = declared.api.unwrap_or(Api::OpenaiChat);
    let mut model = ModelInfo::safe_defaults(&declared.provider, api, &declared.id, window);
    model.api = declared.api.map(|api| api.as_str().to_owned());
    model.max_output_tokens = assumed_output(window);
    model
}

fn checked(model: ModelInfo, path: &str) -> Result<ModelInfo, InputError> {
    let at = |field: &str| format!("{path}.{field}");
    if model.context_window == 0 {
        return Err(InputError::new(at("contextWindow"), "`0` holds no prompt; pass its tokens"));
    }
    let limits = [
        ("maxInputTokens", model.max_input_tokens.unwrap_or(model.context_window)),
        ("maxOutputTokens", model.max_output_tokens),
    ];
    for (field, limit) in limits {
        if limit == 0 || limit > model.context_window {
            return Err(InputError::new(
                at(field),
                format!("`{limit}` is not between 1 and the window of {}", model.context_window),
            ));
        }
    }
    if model.input.is_empty() {
        return Err(InputError::new(at("input"), "is empty; pass at least `text`"));
    }
    for (field, price) in model.cost.iter().flat_map(ModelCost::prices) {
        if !price.is_finite() || price < 0.0 {
            return Err(InputError::new(
                at(&format!("cost.{field}")),
                format!("`{price}` is not a price in US dollars per million tokens"),
            ));
        }
    }
    Ok(model)
}
