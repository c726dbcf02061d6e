//! The parameters of one call of a model. It must never send anything.

use std::sync::Arc;
use std::time::Duration;

use super::waits::NextCall;
use crate::engine::events::EventQueue;
use crate::engine::limits::Payer;
use crate::engine::state::{Bounds, ModelTarget};
use model::CallPurpose;
use provider::{ModelRequest, RequestHook, RequestHost};
use turn::governor::Claim;
use turn::usage::Estimated;

/// The size of a call's prompt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PromptSize {
    /// The size for rate limits.
    pub(crate) needed: u64,
    /// The largest possible size, for budgets.
    pub(crate) worst: u64,
    /// The usage of the prompt if its provider reports none.
    pub(crate) estimate: Estimated,
}

/// The host that inspects the requests of a run, a compaction or a count.
#[derive(Clone, Copy)]
pub(crate) struct HookHost<'a> {
    pub(crate) host: &'a Arc<dyn RequestHost>,
    pub(crate) run_id: &'a str,
}

/// One call of a model.
pub(crate) struct ModelCall<'a> {
    pub(crate) purpose: CallPurpose,
    pub(crate) target: &'a ModelTarget,
    pub(crate) profile: Option<&'a str>,
    /// The request without its hook.
    pub(crate) request: ModelRequest,
    pub(crate) prompt: PromptSize,
    /// Its number among its run's attempts, from 1.
    pub(crate) number: u32,
    pub(crate) claim: Claim,
    /// `None` for a call that costs nothing.
    pub(crate) payer: Option<Payer<'a>>,
    pub(crate) hook: Option<HookHost<'a>>,
    pub(crate) bounds: &'a Bounds,
    /// The queue for `waiting` events and the streamed answer of a run; `None` where there is no run.
    pub(crate) events: Option<&'a Arc<EventQueue>>,
    /// How long it has waited already.
    pub(crate) held: Duration,
}

impl<'a> ModelCall<'a> {
    /// The call in the form of a `waiting` event.
    pub(super) fn next(&self) -> NextCall<'a> {
        NextCall {
            purpose: self.purpose,
            provider: &self.target.provider_name,
            model: &self.target.model_name,
            profile: self.profile,
            attempt: self.number,
        }
    }

    pub(super) fn request_hook(&self) -> Option<RequestHook> {
        self.hook.map(|HookHost { host, run_id }| RequestHook {
            host: Arc::clone(host),
            provider: self.target.provider_name.clone(),
            run_id: run_id.to_owned(),
            attempt: self.number,
            purpose: self.purpose,
        })
    }
}
