//! The model that summarises, with its options and profiles. It must never call it.

use super::options::CompactionOptions;
use crate::engine::failover::{FailoverOptions, candidate};
use crate::engine::providers::Providers;
use crate::engine::state::ModelTarget;
use base::error::EngineError;
use turn::fallback::Candidate;

/// A summariser.
pub(crate) struct Compactor {
    pub(super) options: CompactionOptions,
    pub(super) target: ModelTarget,
    /// The profiles it is called with.
    pub(super) candidate: Candidate,
    /// How often a failed call is sent again; `None` for the default.
    pub(super) retries: Option<u32>,
}

/// The compactor of a run that calls `own`; with `pin`, only that profile is used.
pub(crate) fn compactor(
    providers: &Providers,
    options: &CompactionOptions,
    failover: &FailoverOptions,
    own: &ModelTarget,
    pin: Option<&str>,
) -> Result<Compactor, EngineError> {
    let or_own = |field: &Option<String>, name: &str| field.as_deref().unwrap_or(name).to_owned();
    let provider_name = or_own(&options.provider, &own.provider_name);
    let model_name = or_own(&options.model, &own.model_name);
    let entry = providers.named(&provider_name)?;
    let target = if provider_name == own.provider_name && model_name == own.model_name {
        own.clone()
    } else {
        let model = providers.model(&provider_name, &model_name, entry.provider.api())?;
        ModelTarget { provider_name, model_name, provider: entry.provider.clone(), model }
    };
    let candidate = candidate(failover, &target, entry, pin);
    Ok(Compactor { options: options.clone(), target, candidate, retries: failover.max_retries })
}
