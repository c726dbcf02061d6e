//! Which models of the catalogue a host wants to see. It must never change what is known of one.

use serde::Deserialize;

use super::{Modality, ModelInfo};
use crate::Api;

/// What the models listed must have; all of them where nothing is named.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ModelFilter {
    /// Who serves it.
    pub provider: Option<String>,
    /// The API that its provider speaks for it.
    pub api: Option<Api>,
    /// Whether it can think.
    pub reasoning: Option<bool>,
    /// What a prompt may hold.
    pub input: Option<Modality>,
}

impl ModelFilter {
    pub(super) fn lets_through(&self, model: &ModelInfo) -> bool {
        self.provider.as_ref().is_none_or(|provider| *provider == model.provider)
            && self.api.is_none_or(|api| model.api.as_deref() == Some(api.as_str()))
            && self.reasoning.is_none_or(|reasoning| reasoning == model.reasoning)
            && self.input.is_none_or(|input| model.input.contains(&input))
    }
}
