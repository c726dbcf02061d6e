//! Providers and models by their names.
//!
//! It must never guess: a name that is not known is an error that says what is.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::{Engine, ProviderEntry};
use base::error::{EngineError, ErrorCode};
use model::{Api, InputError, ModelFilter, ModelInfo, quoted};

impl Engine {
    /// The models that the engine knows, by provider and name.
    #[must_use]
    pub fn models(&self, filter: &ModelFilter) -> Vec<Arc<ModelInfo>> {
        self.catalogue.list(filter)
    }

    pub(super) fn provider_named(&self, name: &str) -> Result<&ProviderEntry, EngineError> {
        self.providers.get(name).ok_or_else(|| {
            let mut known: Vec<&str> = self.providers.keys().map(String::as_str).collect();
            known.sort_unstable();
            let known = known.join(", ");
            EngineError::at(
                ErrorCode::UnknownProvider,
                InputError {
                    path: "provider".to_owned(),
                    message: format!(
                        "{} is not among the engine's providers ({known})",
                        quoted(name)
                    ),
                },
            )
        })
    }

    fn looked_up(&self) -> MutexGuard<'_, HashMap<(String, String), Arc<ModelInfo>>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a provider's model.
    pub(super) fn model_named(
        &self,
        provider: &str,
        model: &str,
        api: Api,
    ) -> Result<Arc<ModelInfo>, EngineError> {
        /// A script has no window of its own.
        const SCRIPTED_WINDOW: u64 = 200_000;
        /// More names than an engine is asked for in its life; past it, names are looked up each time.
        const MOST_KEPT: usize = 1_000;
        let name = (provider.to_owned(), model.to_owned());
        if let Some(kept) = self.looked_up().get(&name) {
            return Ok(Arc::clone(kept));
        }
        let found =
            self.catalogue.resolve_for(provider, api, model).map(|found| found.model).or_else(
                || {
                    (api == Api::Scripted).then(|| {
                        Arc::new(ModelInfo::safe_defaults(provider, api, model, SCRIPTED_WINDOW))
                    })
                },
            );
        if let Some(found) = found {
            let mut models = self.looked_up();
            if models.len() < MOST_KEPT {
                models.insert(name, Arc::clone(&found));
            }
            return Ok(found);
        }
        Err(EngineError::at(
            ErrorCode::UnknownModel,
            InputError {
                path: "model".to_owned(),
                message: format!(
                    "{} of {} is not in the catalogue; declare its `contextWindow` in the engine's `models`",
                    quoted(model),
                    quoted(provider)
                ),
            },
        ))
    }
}
