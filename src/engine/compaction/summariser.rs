//! The calls of one compaction to its summariser, each with a free profile, and with retries.
//!
//! It must never write, and never check the content of an answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::compactor::Compactor;
use super::options::Preset;
use crate::engine::call::{
    Called, Dismissed, Ending, HookHost, ModelCall, NextCall, PromptSize, announce_wait, call,
};
use crate::engine::context::MARGIN;
use crate::engine::events::EventQueue;
use crate::engine::failover::{FailedCall, after_failure};
use crate::engine::limits::Payer;
use crate::engine::shared::EngineShared;
use crate::engine::state::{Bounds, ModelTarget};
use model::{
    Block, CallPurpose, CompactionUsage, Completion, Failure, FailureKind, Message, Role, Stop,
};
use provider::ModelRequest;
use turn::calibration::Ratio;
use turn::compact::{instructions, share};
use turn::fallback::{Choice, Plan};
use turn::governor::{Claim, Priority};
use turn::machine::Interrupt;
use turn::usage::Estimated;
use turn::{estimate, retry};

/// The maximum tokens of a summary.
const MOST_TOKENS: u64 = 16_000;

/// The run or the session that needs a summary.
pub(super) struct Requester<'a> {
    pub(super) shared: &'a EngineShared,
    pub(super) payer: Payer<'a>,
    pub(super) hook: Option<HookHost<'a>>,
    /// What ends it: an abort, or the end of the run's time.
    pub(super) bounds: Bounds,
    /// The queue for `waiting` events; `None` where there is no run.
    pub(super) events: Option<&'a Arc<EventQueue>>,
    /// The number of its first attempt.
    pub(super) first_attempt: u32,
    /// The number of failed calls of the run.
    pub(super) failed_calls: u32,
}

/// Why a request was not answered.
pub(super) enum Unanswered {
    Interrupted(Interrupt),
    Failed(Failure),
}

impl From<Failure> for Unanswered {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Interrupt> for Unanswered {
    fn from(cause: Interrupt) -> Self {
        Self::Interrupted(cause)
    }
}

/// The calls of one compaction to its summariser.
pub(super) struct Summariser<'a> {
    pub(super) compactor: &'a Compactor,
    pub(super) by: Requester<'a>,
    /// The end of the requester's own time.
    pub(super) deadline: Instant,
    /// The requester's time, shortened by the limit of the compaction.
    bounds: Bounds,
    /// The profile in use.
    profile: Option<String>,
    /// How long the next call has waited.
    held: Duration,
    used: CompactionUsage,
}

impl<'a> Summariser<'a> {
    pub(super) fn new(compactor: &'a Compactor, by: Requester<'a>) -> Self {
        let limit = Duration::from_millis(compactor.options.timeout_ms);
        let deadline = by.bounds.deadline;
        let own = by.shared.clock.instant() + limit;
        let bounds = Bounds { deadline: deadline.min(own), ..by.bounds.clone() };
        let used = CompactionUsage { cost: Some(0.0), ..CompactionUsage::default() };
        Self { compactor, by, deadline, bounds, profile: None, held: Duration::ZERO, used }
    }

    /// The usage of the calls so far.
    pub(super) fn into_usage(self) -> CompactionUsage {
        self.used
    }
}

impl Summariser<'_> {
    /// Sends a request with a free profile, and retries if the plan decides so.
    pub(super) async fn complete(&mut self, text: &str) -> Result<String, Unanswered> {
        let shared = self.by.shared;
        let keys = &shared.keys;
        let Compactor { candidate, retries, .. } = self.compactor;
        let mut plan = Plan::new(vec![candidate.clone()], self.profile.clone()).retrying(*retries);
        loop {
            self.bounds.guard(keys.refresh()).await?;
            match keys.choose(&plan, self.bounds.remaining(&shared.clock), &|_| false) {
                Choice::Use(profile) => {
                    if let Some(id) = profile.as_deref().filter(|_| profile != self.profile) {
                        keys.picked(id);
                    }
                    plan.using(profile.as_deref());
                    self.profile = profile;
                }
                Choice::Wait(pause) => {
                    // The wall clock is read in whole milliseconds, so it is up to one behind.
                    let length = pause.length.saturating_add(Duration::from_millis(1));
                    self.wait(pause.profile.as_deref(), pause.reason, length).await?;
                    plan.waited();
                    continue;
                }
                // There is only one candidate.
                Choice::Switch { to, .. } => {
                    plan.switched(to);
                    continue;
                }
                Choice::Fail(failure) => return Err(failure.into()),
            }
            let Some(called) = self.attempt(text, plan.is_last_request()).await else { continue };
            let failure = match (called.ending, called.reply) {
                (Ending::Completed(completion), reply) => {
                    let blocks = reply.map(|reply| reply.blocks).unwrap_or_default();
                    if let Some(id) = &self.profile {
                        keys.answered(id);
                    }
                    return answer(&completion, &blocks).map_err(Unanswered::Failed);
                }
                (Ending::Failed(failure), _) => retry::judged(&failure).into_owned(),
                (Ending::Interrupted(cause), _) => return Err(cause.into()),
                (Ending::Counted(_) | Ending::Embedded(_), _) => continue,
            };
            plan.has_failed(self.failed_calls().saturating_sub(1));
            let failed = FailedCall {
                profile: self.profile.as_deref(),
                model_name: &self.compactor.target.model_name,
                failure: &failure,
                emitted: false,
                remaining: self.bounds.remaining(&shared.clock),
            };
            let delay = after_failure(keys, &shared.governor, &mut plan, failed).await?;
            if !delay.is_zero() {
                self.wait(self.profile.as_deref(), failure.kind, delay).await?;
            }
        }
    }

    async fn wait(
        &self,
        profile: Option<&str>,
        reason: FailureKind,
        length: Duration,
    ) -> Result<(), Interrupt> {
        if let Some(events) = self.by.events {
            let next = NextCall {
                purpose: CallPurpose::Summary,
                provider: &self.compactor.target.provider_name,
                model: &self.compactor.target.model_name,
                profile,
                attempt: self.next_attempt(),
            };
            announce_wait(events, next, reason, Some(length), self.by.shared.clock.now_ms());
        }
        self.bounds.guard(tokio::time::sleep(length)).await
    }

    fn next_attempt(&self) -> u32 {
        let made = u32::try_from(self.used.attempts.len()).unwrap_or(u32::MAX);
        self.by.first_attempt.saturating_add(made)
    }

    fn failed_calls(&self) -> u32 {
        let own = self.used.attempts.iter().filter(|attempt| !attempt.ok).count();
        self.by.failed_calls.saturating_add(u32::try_from(own).unwrap_or(u32::MAX))
    }

    /// The calibration of the summariser's model.
    pub(super) fn ratio(&self) -> Ratio {
        let ModelTarget { provider_name, model_name, .. } = &self.compactor.target;
        self.by.shared.calibrations.of(provider_name, model_name)
    }

    /// Sends one request. `None`: a profile must be chosen again.
    async fn attempt(&mut self, text: &str, last: bool) -> Option<Called> {
        let shared = self.by.shared;
        let request = self.request(text);
        let request_tokens = estimate::text_tokens(text);
        let whole = request_tokens.saturating_add(estimate::text_tokens(&request.system));
        let ratio = self.ratio();
        let model_call = ModelCall {
            purpose: CallPurpose::Summary,
            target: &self.compactor.target,
            profile: self.profile.as_deref(),
            request,
            prompt: PromptSize {
                needed: share(ratio.apply(request_tokens), MARGIN),
                worst: share(ratio.apply(whole).max(whole), MARGIN),
                estimate: Estimated { tokens: ratio.apply(whole), text: whole },
            },
            number: self.next_attempt(),
            claim: Claim { priority: Priority::Compaction, last },
            payer: Some(self.by.payer.clone()),
            hook: self.by.hook,
            bounds: &self.bounds,
            events: self.by.events,
            held: self.held,
        };
        let called = match call(shared, model_call).await {
            Ok(called) => called,
            Err(Dismissed { held }) => {
                self.held = held;
                return None;
            }
        };
        if let Some(attempt) = &called.attempt {
            self.held = Duration::ZERO;
            self.used.attempts.push(attempt.clone());
            self.used.cost = self.used.cost.zip(called.cost).map(|(sum, call)| sum + call);
        }
        let (usage, estimated) = (called.tokens(), called.is_estimated());
        self.used.tokens = self.used.tokens.plus(usage);
        self.used.estimated |= estimated;
        if matches!(called.ending, Ending::Completed(_)) && !estimated {
            let ModelTarget { provider_name, model_name, .. } = &self.compactor.target;
            shared.calibrations.learn(provider_name, model_name, usage.prompt_tokens(), whole);
        }
        Some(called)
    }

    fn request(&self, text: &str) -> ModelRequest {
        let (compactor, target) = (self.compactor, &self.compactor.target);
        let clock = &self.by.shared.clock;
        let question = Message {
            id: clock.new_id(),
            role: Role::User,
            blocks: vec![Block::text(text)],
            sequence: 0,
            created_at: clock.now_ms(),
            provenance: None,
            provider_stop_reason: None,
        };
        let system = match compactor.options.preset {
            Some(Preset::Myclaw) => MYCLAW.to_owned(),
            None => instructions(),
        };
        let messages = target.provider.encode_messages(std::slice::from_ref(&question));
        ModelRequest {
            model: target.model_name.clone(),
            system,
            messages: vec![messages],
            open_end: true,
            max_tokens: share(target.model.context_window, 20)
                .min(MOST_TOKENS)
                .min(target.model.max_output_tokens)
                .max(1),
            reasoning_model: target.model.reasoning,
            ..ModelRequest::default()
        }
    }
}

/// The text of a whole answer.
fn answer(completion: &Completion, blocks: &[Block]) -> Result<String, Failure> {
    match completion.stop {
        Stop::EndTurn
        | Stop::StopSequence
        | Stop::ToolUse
        | Stop::MaxTokens
        | Stop::ContextFull
        | Stop::Pause
        | Stop::Other => Ok(blocks.iter().filter_map(Block::as_text).collect()),
        Stop::Refusal | Stop::ContentFilter | Stop::MalformedToolCall | Stop::Error => {
            let message = format!("the summariser stopped with `{}`", completion.stop_raw);
            Err(Failure::new(FailureKind::Refusal, "", message))
        }
    }
}

/// The system prompt of the simple form.
const MYCLAW: &str = "Summarise the conversation you are given, so that it can go on from your summary alone. Keep what was \
                      decided, what is open, and every name, path and id. Write the summary and nothing else.";
