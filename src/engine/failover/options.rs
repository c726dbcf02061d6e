//! What a host says of profiles and fallbacks, and the chain of models that a context comes to.
//!
//! It must never hold a key, and never guess a provider that is not there.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::compaction::Compactor;
use super::super::{Engine, ProviderEntry};
use super::keys::no_profile;
use base::error::{EngineError, ErrorCode};
use model::{AssembledContext, InputError, ModelInfo, ModelName, RunWarning, quoted, typed};
use provider::Provider;
use turn::fallback::{MAX_WAIT_MS, Seat};
use turn::profiles::{Candidate, CooldownPolicy};

/// A ladder of cooldowns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ladder {
    /// 30 seconds, 1 minute, 5 minutes.
    #[default]
    Default,
    /// 1 minute, 5 minutes, 25 minutes, 1 hour.
    Legacy,
}

/// How runs go on when a profile or a model fails.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FailoverOptions {
    /// How long profiles are left alone.
    pub ladder: Ladder,
    /// The first window after a billing failure, in milliseconds.
    pub billing_base_ms: Option<i64>,
    /// The longest wait while another model can be asked, in milliseconds.
    pub max_wait_ms: Option<i64>,
    /// The profiles of a provider that are used, in this order.
    pub order: BTreeMap<String, Vec<String>>,
    /// The models to go to, where a context names none.
    pub fallbacks: Vec<ModelName>,
    /// The only models that may be gone to.
    pub allow: Option<Vec<ModelName>>,
}

impl FailoverOptions {
    /// Reads `failover` of the engine's options.
    ///
    /// # Errors
    /// The first field that is wrong, by its path.
    pub fn parse(raw: Option<&RawValue>) -> Result<Self, InputError> {
        const DAY_MS: i64 = 24 * 3_600_000;
        /// As long as a pause that a provider asks for.
        const MOST_WAIT_MS: i64 = 60_000;
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(Self::default()) };
        let options: Self = typed("failover", raw)?;
        if let Some(base) = options.billing_base_ms
            && !(1..=DAY_MS).contains(&base)
        {
            return Err(InputError::new(
                "failover.billingBaseMs",
                format!("`{base}` is not a window; pass 1 to {DAY_MS} milliseconds"),
            ));
        }
        if let Some(wait) = options.max_wait_ms
            && !(0..=MOST_WAIT_MS).contains(&wait)
        {
            return Err(InputError::new(
                "failover.maxWaitMs",
                format!("`{wait}` is not a wait; pass 0 to {MOST_WAIT_MS} milliseconds"),
            ));
        }
        Ok(options)
    }

    /// The longest wait while another model can be asked, in milliseconds.
    pub(crate) fn max_wait(&self) -> i64 {
        self.max_wait_ms.unwrap_or(MAX_WAIT_MS)
    }

    /// Checks the names of providers and profiles.
    ///
    /// # Errors
    /// The first name that is not there, by its path.
    pub fn check<'a>(
        &self,
        known: impl Fn(&str) -> Option<Vec<&'a str>>,
    ) -> Result<(), InputError> {
        for (provider, ids) in &self.order {
            let path = format!("failover.order.{provider}");
            let Some(profiles) = known(provider) else {
                let message = format!("{} is not one of `providers`", quoted(provider));
                return Err(InputError::new(path, message));
            };
            for (index, id) in ids.iter().enumerate() {
                let path = format!("{path}[{index}]");
                if !profiles.contains(&id.as_str()) {
                    let message =
                        format!("{} is no auth profile of {}", quoted(id), quoted(provider));
                    return Err(InputError::new(path, message));
                }
                if ids.iter().take(index).any(|other| other == id) {
                    return Err(InputError::new(path, format!("{} is there twice", quoted(id))));
                }
            }
        }
        let named = self.fallbacks.iter().map(|it| ("fallbacks", it));
        let allowed = self.allow.iter().flatten().map(|it| ("allow", it));
        for (field, name) in named.chain(allowed) {
            if let Some(provider) = &name.provider
                && known(provider).is_none()
            {
                let message = format!("{} is not one of `providers`", quoted(provider));
                return Err(InputError::new(format!("failover.{field}"), message));
            }
        }
        Ok(())
    }

    pub(crate) fn policy(&self) -> CooldownPolicy {
        let usual = CooldownPolicy::default();
        CooldownPolicy {
            legacy_ladder: self.ladder == Ladder::Legacy,
            billing_base_ms: self.billing_base_ms.unwrap_or(usual.billing_base_ms),
        }
    }

    fn allows(&self, provider: &str, model: &str) -> bool {
        self.allow.as_ref().is_none_or(|allowed| {
            allowed.iter().any(|name| {
                name.model == model && name.provider.as_deref().is_none_or(|of| of == provider)
            })
        })
    }
}

/// A model of a run's chain, with what it is asked through.
#[derive(Clone)]
pub(crate) struct Chair {
    pub(crate) provider_name: String,
    pub(crate) model_name: String,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) model: Arc<ModelInfo>,
    pub(crate) compactor: Option<Arc<Compactor>>,
}

/// The models of a run: the one asked for, then where it may go.
pub(crate) struct Chain {
    pub(crate) chairs: Vec<Chair>,
    pub(crate) seats: Vec<Seat>,
    pub(crate) notes: Vec<RunWarning>,
}

impl Engine {
    /// The plan's view of a model: the profiles it may be asked with.
    pub(crate) fn seat(
        &self,
        provider: &str,
        model: &ModelInfo,
        model_name: &str,
        entry: &ProviderEntry,
        pin: Option<&str>,
    ) -> Seat {
        let order = self.core.failover.order.get(provider);
        let candidate = |id: &str| {
            let found = entry.keys.profiles.iter().find(|profile| profile.id == id)?;
            Some(Candidate { id: found.id.clone(), kind: found.kind })
        };
        let pinned = pin.and_then(candidate);
        let profiles: Vec<Candidate> = match (pinned, order) {
            (Some(pinned), _) => vec![pinned],
            (None, Some(order)) => order.iter().filter_map(|id| candidate(id)).collect(),
            (None, None) => {
                entry.keys.profiles.iter().filter_map(|profile| candidate(&profile.id)).collect()
            }
        };
        let missing = match &entry.keys.missing {
            Some(missing) => Some(missing.clone()),
            None if profiles.is_empty() && !entry.keys.profiles.is_empty() => {
                Some(no_profile(provider))
            }
            None => None,
        };
        Seat {
            provider: provider.to_owned(),
            model: model_name.to_owned(),
            window: model.context_window,
            profiles,
            explicit: order.is_some(),
            missing,
        }
    }

    /// The models of a run of `context`, which asks `entry` for `model` first.
    pub(crate) fn chain(
        &self,
        context: &AssembledContext,
        entry: &ProviderEntry,
        model: &Arc<ModelInfo>,
    ) -> Result<Chain, EngineError> {
        let pin = context.auth_profile_id.as_deref();
        if let Some(pin) = pin
            && !entry.keys.profiles.iter().any(|profile| profile.id == pin)
        {
            let message =
                format!("{} is no auth profile of {}", quoted(pin), quoted(&context.provider));
            return Err(EngineError::context(InputError::new("authProfileId", message)));
        }
        let mut chain = Chain { chairs: Vec::new(), seats: Vec::new(), notes: Vec::new() };
        self.add(&mut chain, (&context.provider, &context.model), entry, model, pin)?;
        let (field, named) = match &context.fallbacks {
            Some(fallbacks) => ("fallbacks", fallbacks),
            None => ("failover.fallbacks", &self.core.failover.fallbacks),
        };
        for (index, name) in named.iter().enumerate() {
            let path = format!("{field}[{index}]");
            let (provider, entry) = self.provider_of(context, name, &path)?;
            let model = self
                .model_named(&provider, &name.model, entry.provider.api())
                .map_err(|error| EngineError { field: Some(path.clone()), ..error })?;
            if chain.seats.iter().any(|it| it.provider == provider && it.model == name.model) {
                continue;
            }
            if !self.core.failover.allows(&provider, &name.model) {
                chain.notes.push(RunWarning {
                    code: "fallback_not_allowed".to_owned(),
                    message: format!("`{}` is not in `failover.allow`", name.model),
                    field: Some(path),
                });
                continue;
            }
            if model.context_window < self.core.guard.min_window {
                let message = format!(
                    "a window of `{}` tokens is below `contextGuard.minWindow`; name another model",
                    model.context_window
                );
                return Err(EngineError::context(InputError::new(path, message)));
            }
            self.add(&mut chain, (&provider, &name.model), entry, &model, pin)?;
        }
        Ok(chain)
    }

    fn add(
        &self,
        chain: &mut Chain,
        (provider_name, model_name): (&str, &str),
        entry: &ProviderEntry,
        model: &Arc<ModelInfo>,
        pin: Option<&str>,
    ) -> Result<(), EngineError> {
        chain.seats.push(self.seat(provider_name, model, model_name, entry, pin));
        chain.chairs.push(Chair {
            provider_name: provider_name.to_owned(),
            model_name: model_name.to_owned(),
            provider: Arc::clone(&entry.provider),
            model: Arc::clone(model),
            compactor: self.compactor((provider_name, model_name), entry, model, pin)?,
        });
        Ok(())
    }

    /// Whose model a name is: the one it says, else the run's, else the first by name whose models have it.
    fn provider_of(
        &self,
        context: &AssembledContext,
        name: &ModelName,
        path: &str,
    ) -> Result<(String, &ProviderEntry), EngineError> {
        if let Some(provider) = &name.provider {
            let entry = self.provider_named(provider).map_err(|error| EngineError {
                field: Some(format!("{path}.provider")),
                ..error
            })?;
            return Ok((provider.clone(), entry));
        }
        let mut providers: Vec<&String> = self.providers.keys().collect();
        providers.sort_unstable_by_key(|it| (**it != context.provider, *it));
        // A provider's own model goes before one that others of its API have under that name.
        for own in [true, false] {
            for provider in &providers {
                let entry = self.provider_named(provider)?;
                let api = entry.provider.api();
                let known = if own {
                    self.catalogue.resolve(provider, &name.model).is_some()
                } else {
                    self.model_named(provider, &name.model, api).is_ok()
                };
                if known {
                    return Ok(((*provider).clone(), entry));
                }
            }
        }
        let message = format!("`{}` is a model of none of the engine's providers", name.model);
        Err(EngineError::at(ErrorCode::UnknownModel, InputError::new(path, message)))
    }
}
