//! The providers of an engine and their models, by name.
//!
//! It must never guess: an unknown name is an error that lists the known ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::error::{EngineError, ErrorCode};
use model::{Api, Catalogue, InputError, ModelFilter, ModelInfo, quoted};
use provider::{Provider, ProviderKeys};

/// A provider of the engine, with its keys.
pub(crate) struct ProviderEntry {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// Its auth profiles.
    pub keys: ProviderKeys,
}

/// The providers and the catalogue of an engine.
pub(crate) struct Providers {
    entries: HashMap<String, ProviderEntry>,
    catalogue: Catalogue,
    /// Looked-up models, by provider and name.
    models: Mutex<HashMap<(String, String), Arc<ModelInfo>>>,
}

impl Providers {
    pub(crate) fn new(entries: HashMap<String, ProviderEntry>, catalogue: Catalogue) -> Self {
        Self { entries, catalogue, models: Mutex::default() }
    }

    /// The models of the catalogue, by provider and name.
    pub(crate) fn models(&self, filter: &ModelFilter) -> Vec<Arc<ModelInfo>> {
        self.catalogue.list(filter)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&String, &ProviderEntry)> {
        self.entries.iter()
    }

    /// Whether the catalogue has the model under the provider's own name.
    pub(crate) fn has_own(&self, provider: &str, model: &str) -> bool {
        self.catalogue.resolve(provider, model).is_some()
    }

    pub(crate) fn named(&self, name: &str) -> Result<&ProviderEntry, EngineError> {
        self.entries.get(name).ok_or_else(|| {
            let known = self.names().join(", ");
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

    /// The names of all.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.entries.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    fn looked_up(&self) -> MutexGuard<'_, HashMap<(String, String), Arc<ModelInfo>>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The catalogue's entry of a provider's model.
    pub(crate) fn model(
        &self,
        provider: &str,
        model: &str,
        api: Api,
    ) -> Result<Arc<ModelInfo>, EngineError> {
        /// The window of the scripted provider.
        const SCRIPTED_WINDOW: u64 = 200_000;
        /// The maximum number of cached names; above it, names are looked up each time.
        const MOST_CACHED: usize = 1_000;
        let name = (provider.to_owned(), model.to_owned());
        if let Some(cached) = self.looked_up().get(&name) {
            return Ok(Arc::clone(cached));
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
            if models.len() < MOST_CACHED {
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
