//! Builds the fallback chain of a run: the model of its context, then its fallbacks.
//!
//! It must never hold a key, and never guess an unknown provider.

use std::sync::Arc;

use super::keyring::no_profile;
use super::options::FailoverOptions;
use crate::engine::context::ContextGuard;
use crate::engine::providers::{ProviderEntry, Providers};
use crate::engine::state::ModelTarget;
use base::error::{EngineError, ErrorCode};
use model::{AssembledContext, InputError, ModelInfo, ModelName, RunWarning, quoted};
use turn::fallback::Candidate;
use turn::profiles::ProfileCandidate;

/// The models of a run, in the order in which they are called.
pub(crate) struct FallbackChain {
    pub(crate) targets: Vec<ModelTarget>,
    /// The plan's view of each target.
    pub(crate) candidates: Vec<Candidate>,
    /// Warnings for models of the context that are not in the chain.
    pub(crate) warnings: Vec<RunWarning>,
}

/// The plan's view of a model with its profiles; with `pin`, only the pinned one.
pub(crate) fn candidate(
    options: &FailoverOptions,
    target: &ModelTarget,
    entry: &ProviderEntry,
    pin: Option<&str>,
) -> Candidate {
    let provider = target.provider_name.as_str();
    let order = options.order.get(provider);
    let named = |id: &str| {
        let found = entry.keys.profiles.iter().find(|profile| profile.id == id)?;
        Some(ProfileCandidate { id: found.id.clone(), kind: found.kind })
    };
    let pinned = pin.and_then(named);
    let profiles: Vec<ProfileCandidate> = match (pinned, order) {
        (Some(pinned), _) => vec![pinned],
        (None, Some(order)) => order.iter().filter_map(|id| named(id)).collect(),
        (None, None) => {
            entry.keys.profiles.iter().filter_map(|profile| named(&profile.id)).collect()
        }
    };
    let missing = match &entry.keys.missing {
        Some(missing) => Some(missing.clone()),
        None if profiles.is_empty() && !entry.keys.profiles.is_empty() => {
            Some(no_profile(provider))
        }
        None => None,
    };
    Candidate {
        provider: provider.to_owned(),
        model: target.model_name.clone(),
        window: target.model.context_window,
        profiles,
        explicit: order.is_some(),
        missing,
    }
}

/// The chain of a run of `context` with the model `model` of `entry`.
pub(crate) fn fallback_chain(
    providers: &Providers,
    options: &FailoverOptions,
    guard: &ContextGuard,
    context: &AssembledContext,
    entry: &ProviderEntry,
    model: &Arc<ModelInfo>,
) -> Result<FallbackChain, EngineError> {
    let pin = context.auth_profile_id.as_deref();
    if let Some(pin) = pin
        && !entry.keys.profiles.iter().any(|profile| profile.id == pin)
    {
        let message =
            format!("{} is no auth profile of {}", quoted(pin), quoted(&context.provider));
        return Err(EngineError::context(InputError::new("authProfileId", message)));
    }
    let mut chain =
        FallbackChain { targets: Vec::new(), candidates: Vec::new(), warnings: Vec::new() };
    let add = |chain: &mut FallbackChain, target: ModelTarget, entry: &ProviderEntry| {
        chain.candidates.push(candidate(options, &target, entry, pin));
        chain.targets.push(target);
    };
    let own = ModelTarget {
        provider_name: context.provider.clone(),
        model_name: context.model.clone(),
        provider: Arc::clone(&entry.provider),
        model: Arc::clone(model),
    };
    add(&mut chain, own, entry);
    let (field, named) = match &context.fallbacks {
        Some(fallbacks) => ("fallbacks", fallbacks),
        None => ("failover.fallbacks", &options.fallbacks),
    };
    for (index, name) in named.iter().enumerate() {
        let path = format!("{field}[{index}]");
        let (provider_name, entry) = provider_of(providers, context, name, &path)?;
        let model = providers
            .model(&provider_name, &name.model, entry.provider.api())
            .map_err(|error| EngineError { field: Some(path.clone()), ..error })?;
        let is_there =
            |it: &ModelTarget| it.provider_name == provider_name && it.model_name == name.model;
        if chain.targets.iter().any(is_there) {
            continue;
        }
        if !options.allows(&provider_name, &name.model) {
            chain.warnings.push(RunWarning {
                code: "fallback_not_allowed".to_owned(),
                message: format!("`{}` is not in `failover.allow`", name.model),
                field: Some(path),
            });
            continue;
        }
        if model.context_window < guard.min_window {
            let message = format!(
                "a window of `{}` tokens is below `contextGuard.minWindow`; name another model",
                model.context_window
            );
            return Err(EngineError::context(InputError::new(path, message)));
        }
        let model_name = name.model.clone();
        let provider = Arc::clone(&entry.provider);
        add(&mut chain, ModelTarget { provider_name, model_name, provider, model }, entry);
    }
    Ok(chain)
}

/// The provider of a named model: the named one, else the context's, else the first by name that has the model.
fn provider_of<'a>(
    providers: &'a Providers,
    context: &AssembledContext,
    name: &ModelName,
    path: &str,
) -> Result<(String, &'a ProviderEntry), EngineError> {
    if let Some(provider) = &name.provider {
        let entry = providers
            .named(provider)
            .map_err(|error| EngineError { field: Some(format!("{path}.provider")), ..error })?;
        return Ok((provider.clone(), entry));
    }
    let mut sorted: Vec<(&String, &ProviderEntry)> = providers.entries().collect();
    sorted.sort_unstable_by_key(|(it, _)| (**it != context.provider, *it));
    // A provider's own model is preferred to one that is only known from other providers of its API.
    for own in [true, false] {
        for (provider, entry) in &sorted {
            let known = if own {
                providers.has_own(provider, &name.model)
            } else {
                providers.model(provider, &name.model, entry.provider.api()).is_ok()
            };
            if known {
                return Ok(((*provider).clone(), *entry));
            }
        }
    }
    let message = format!("`{}` is a model of none of the engine's providers", name.model);
    Err(EngineError::at(ErrorCode::UnknownModel, InputError::new(path, message)))
}
