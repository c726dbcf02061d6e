//! Embeds texts for the memory: one call with the engine's key, rate limits, budgets and hook.
//!
//! It must never retry: the memory calls again later, with another profile if this one cools.

use std::sync::Arc;
use std::time::Duration;

use super::call::{Dismissed, Ending, ModelCall, PromptSize, call};
use super::failover::{FailoverOptions, blame, candidate};
use super::limits::Payer;
use super::providers::ProviderEntry;
use super::shared::EngineShared;
use super::state::{Bounds, ModelTarget};
use model::{CallPurpose, Failure, FailureKind, ModelInfo};
use provider::{EmbedInput, ModelRequest};
use turn::governor::Priority;
use turn::usage::Estimated;
use turn::{estimate, retry};

/// The session that embeddings are charged to.
const SESSION: &str = "system:memory";
/// The window of a model that is not in the catalogue; only its price is used.
const WINDOW: u64 = 8_192;

/// Vectors, and what they cost.
#[derive(Debug, Clone, Default)]
pub(crate) struct EmbeddedTexts {
    pub(crate) vectors: Vec<Vec<f32>>,
    pub(crate) tokens: u64,
    /// US dollars; `None` for a model without a price.
    pub(crate) cost: Option<f64>,
}

/// What embeds.
pub(super) struct EmbedParts<'a> {
    pub(super) shared: &'a EngineShared,
    pub(super) failover: &'a FailoverOptions,
    pub(super) entry: &'a ProviderEntry,
    pub(super) provider_name: String,
    /// The catalogue's entry of the model, if it has one.
    pub(super) model: Option<Arc<ModelInfo>>,
    pub(super) model_name: String,
}

/// Embeds texts in one call.
pub(super) async fn embed(
    parts: EmbedParts<'_>,
    input: EmbedInput,
    limit: Duration,
) -> Result<EmbeddedTexts, Failure> {
    let EmbedParts { shared, failover, entry, provider_name, model, model_name } = parts;
    let api = entry.provider.api();
    let model = model.unwrap_or_else(|| {
        Arc::new(ModelInfo::safe_defaults(&provider_name, api, &model_name, WINDOW))
    });
    let provider = Arc::clone(&entry.provider);
    let target = ModelTarget { provider_name, model_name, provider, model };
    let candidate = candidate(failover, &target, entry, None);
    let tokens = input.texts.iter().map(|text| estimate::text_tokens(text)).sum();
    let prompt = PromptSize {
        needed: tokens,
        worst: tokens.saturating_mul(2),
        estimate: Estimated { tokens, text: tokens },
    };
    let bounds = Bounds {
        abort: shared.closing.clone(),
        deadline: shared.clock.instant() + limit,
        run: None,
    };
    let request = ModelRequest {
        model: target.model_name.clone(),
        embed: Some(Arc::new(input)),
        ..ModelRequest::default()
    };
    let mut held = Duration::ZERO;
    let (profile, called) = loop {
        let profile = shared.keys.any(candidate.clone()).await?;
        let next = ModelCall {
            purpose: CallPurpose::Embed,
            target: &target,
            profile: profile.as_deref(),
            request: request.clone(),
            prompt,
            number: 1,
            claim: Priority::Compaction.into(),
            payer: Some(Payer {
                turn_id: None,
                session_label: SESSION,
                follows: None,
                budget: None,
            }),
            hook: None,
            bounds: &bounds,
            events: None,
            held,
        };
        match call(shared, next).await {
            Ok(called) => break (profile, called),
            Err(Dismissed { held: so_far }) => held = so_far,
        }
    };
    let (tokens, cost) = (called.tokens().total_tokens, called.cost);
    match called.ending {
        Ending::Embedded(answer) => Ok(EmbeddedTexts { vectors: answer.vectors, tokens, cost }),
        Ending::Failed(failure) => {
            let failure = retry::judged(&failure).into_owned();
            if let Some(profile) = profile {
                blame(&shared.keys, &shared.governor, &profile, &target.model_name, &failure).await;
            }
            Err(failure)
        }
        Ending::Completed(_) | Ending::Counted(_) | Ending::Interrupted(_) => {
            let limit = limit.as_millis();
            let message = format!("the provider did not embed within `{limit}` ms");
            Err(Failure::new(FailureKind::Timeout, "timeout", message))
        }
    }
}
