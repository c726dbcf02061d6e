//! A model with its provider and its profiles. It must never call it.

use std::sync::Arc;

use model::{ModelInfo, ModelName};
use provider::Provider;
use turn::transcript::Target;

/// A model that can be called.
#[derive(Clone)]
pub(crate) struct ModelTarget {
    pub(crate) provider_name: String,
    pub(crate) model_name: String,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) model: Arc<ModelInfo>,
}

impl ModelTarget {
    /// Its name on every surface.
    pub(crate) fn name(&self) -> ModelName {
        ModelName { provider: Some(self.provider_name.clone()), model: self.model_name.clone() }
    }

    /// The target of its transcripts.
    pub(crate) fn transcript(&self) -> Target {
        Target {
            api: self.provider.api(),
            provider: self.provider_name.clone(),
            model: self.model_name.clone(),
            rules: self.provider.transcript_rules(),
        }
    }
}
