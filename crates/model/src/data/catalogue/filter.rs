//! Which models of the catalogue a host lists. It must never change an entry.

use serde::Deserialize;

use super::{Modality, ModelInfo};
use crate::Api;

/// The conditions of a list of models; all models where none is set.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ModelFilter {
    /// The provider.
    pub provider: Option<String>,
    /// The API that its provider speaks for it.
    pub api: Option<Api>,
    /// Whether it can think.
    pub reasoning: Option<bool>,
    /// What a prompt may contain.
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
