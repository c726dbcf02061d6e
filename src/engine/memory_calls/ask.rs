//! One request of the memory, sent with a profile that is free. It must never retry.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::call::{Called, Dismissed, Ending, HookHost, ModelCall, PromptSize, call};
use crate::engine::failover::{FailoverOptions, blame, candidate};
use crate::engine::limits::Payer;
use crate::engine::providers::ProviderEntry;
use crate::engine::shared::EngineShared;
use crate::engine::state::{Bounds, ModelTarget};
use model::{CallPurpose, Failure, FailureKind, ModelInfo};
use provider::{ModelRequest, RequestHost};
use turn::governor::Priority;
use turn::retry;
use turn::usage::Estimated;

/// The session that calls without one are charged to, and the run that a hook sees.
pub(crate) const SESSION: &str = "system:memory";
/// The window of a model that is not in the catalogue; only its price is used.
const WINDOW: u64 = 8_192;

/// What calls.
pub(crate) struct CallParts<'a> {
    pub(crate) shared: &'a EngineShared,
    pub(crate) failover: &'a FailoverOptions,
    pub(crate) entry: &'a ProviderEntry,
    pub(crate) provider_name: String,
    /// The catalogue's entry of the model, if it has one.
    pub(crate) model: Option<Arc<ModelInfo>>,
    pub(crate) model_name: String,
    /// The host that inspects the request.
    pub(crate) hook: Option<&'a Arc<dyn RequestHost>>,
    /// The time of the call.
    pub(crate) limit: Duration,
}

/// What is sent.
pub(super) struct Question<'a> {
    pub(super) purpose: CallPurpose,
    pub(super) session_label: &'a str,
    pub(super) request: ModelRequest,
    /// The tokens of its prompt, estimated.
    pub(super) tokens: u64,
}

impl CallParts<'_> {
    /// The model that is called.
    pub(super) fn target(&self) -> ModelTarget {
        let api = self.entry.provider.api();
        let model = self.model.clone().unwrap_or_else(|| {
            let (provider, name) = (&self.provider_name, &self.model_name);
            Arc::new(ModelInfo::safe_defaults(provider, api, name, WINDOW))
        });
        ModelTarget {
            provider_name: self.provider_name.clone(),
            model_name: self.model_name.clone(),
            provider: Arc::clone(&self.entry.provider),
            model,
        }
    }

    /// Sends one request.
    ///
    /// # Errors
    /// The provider failed or did not answer in time, a budget is spent, or the engine closes.
    pub(super) async fn ask(
        &self,
        target: &ModelTarget,
        question: Question<'_>,
    ) -> Result<Called, Failure> {
        let Self { shared, failover, entry, limit, .. } = self;
        let candidate = candidate(failover, target, entry, None);
        let Question { purpose, session_label, request, tokens } = question;
        let prompt = PromptSize {
            needed: tokens,
            worst: tokens.saturating_mul(2),
            estimate: Estimated { tokens, text: tokens },
        };
        let bounds = Bounds {
            abort: shared.closing.clone(),
            deadline: shared.clock.instant() + *limit,
            run: None,
        };
        let mut held = Duration::ZERO;
        let (profile, called) = loop {
            let profile = shared.keys.any(candidate.clone()).await?;
            let next = ModelCall {
                purpose,
                target,
                profile: profile.as_deref(),
                request: request.clone(),
                prompt,
                number: 1,
                claim: Priority::Compaction.into(),
                payer: Some(Payer { turn_id: None, session_label, follows: None, budget: None }),
                hook: self.hook.map(|host| HookHost { host, run_id: SESSION }),
                bounds: &bounds,
                events: None,
                held,
            };
            match call(shared, next).await {
                Ok(called) => break (profile, called),
                Err(Dismissed { held: so_far }) => held = so_far,
            }
        };
        match &called.ending {
            Ending::Embedded(_) | Ending::Completed(_) => Ok(called),
            Ending::Failed(failure) => {
                let failure = retry::judged(failure).into_owned();
                if let Some(profile) = profile {
                    blame(&shared.keys, &shared.governor, &profile, &target.model_name, &failure)
                        .await;
                }
                Err(failure)
            }
            Ending::Counted(_) | Ending::Interrupted(_) => {
                let limit = limit.as_millis();
                let message = format!("the provider did not answer within `{limit}` ms");
                Err(Failure::new(FailureKind::Timeout, "timeout", message))
            }
        }
    }
}
