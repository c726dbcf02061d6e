//! One question to the summariser, asked with whichever profile is free until it is answered or given up.
//!
//! It must never write, and never judge what it was answered.

use std::sync::Arc;
use std::time::Duration;

use super::super::Core;
use super::super::budgets::Payer;
use super::super::call::{
    Bounds, Called, Dismissed, Ending, HookHost, ModelCall, ModelTarget, NextCall, PromptSize,
    announce_wait,
};
use super::super::sink::EventQueue;
use super::Compactor;
use super::fit::MARGIN;
use super::options::Preset;
use super::summarise::Summariser;
use model::{Block, CallPurpose, Completion, Failure, FailureKind, Message, Role, Stop};
use provider::ModelRequest;
use turn::calibration::Ratio;
use turn::compact::{instructions, share};
use turn::fallback::{Choice, Plan};
use turn::governor::{Claim, Priority};
use turn::machine::Interrupt;
use turn::usage::Estimated;
use turn::{estimate, retry};

/// The most tokens of a summary.
const MOST_TOKENS: u64 = 16_000;

/// On whose behalf a summary is made.
pub(super) struct Requester<'a> {
    pub(super) core: &'a Core,
    pub(super) payer: Payer<'a>,
    pub(super) hook: Option<HookHost<'a>>,
    /// Ends it: an abort, or the end of the run's time.
    pub(super) bounds: Bounds,
    /// Where waits are announced; `None` where there is no run.
    pub(super) events: Option<&'a Arc<EventQueue>>,
    /// The number of its first attempt.
    pub(super) first_attempt: u32,
    /// Calls of the run that have failed.
    pub(super) failed_calls: u32,
}

/// Why a question was not answered.
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

impl Summariser<'_> {
    /// Asks, with whichever profile is free, and again where the failure is worth it.
    pub(super) async fn ask(&mut self, text: &str) -> Result<String, Unanswered> {
        let core = self.by.core;
        let keys = &self.compactor.keys;
        let mut plan = Plan::new(vec![self.compactor.seat.clone()], self.profile.clone());
        loop {
            self.bounds.guard(keys.look()).await?;
            match keys.choose(&plan, self.bounds.remaining(&core.clock), &|_| false) {
                Choice::Use(profile) => {
                    if let Some(id) = profile.as_deref().filter(|_| profile != self.profile) {
                        keys.picked(id);
                    }
                    plan.using(profile.as_deref());
                    self.profile = profile;
                }
                Choice::Wait(pause) => {
                    // A wall clock that is read in whole milliseconds is up to one behind.
                    let length = pause.length.saturating_add(Duration::from_millis(1));
                    self.wait(pause.profile.as_deref(), pause.reason, length).await?;
                    plan.waited();
                    continue;
                }
                // One seat: there is no other.
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
                (Ending::Counted(_), _) => continue,
            };
            plan.has_failed(self.failed_calls().saturating_sub(1));
            let asked = (self.profile.as_deref(), self.compactor.model_name.as_str());
            let remaining = self.bounds.remaining(&core.clock);
            let delay = core.after_failure(&mut plan, asked, &failure, false, remaining).await?;
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
                provider: &self.compactor.provider_name,
                model: &self.compactor.model_name,
                profile,
                attempt: self.next_attempt(),
            };
            announce_wait(events, next, reason, Some(length), self.by.core.clock.now_ms());
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

    /// How the summariser counts.
    pub(super) fn ratio(&self) -> Ratio {
        let Compactor { provider_name, model_name, .. } = self.compactor;
        self.by.core.calibrations.of(provider_name, model_name)
    }

    /// Asks once. `None`: the profile is to be chosen anew.
    async fn attempt(&mut self, text: &str, last: bool) -> Option<Called> {
        let core = self.by.core;
        let request = self.request(text);
        let asked = estimate::text_tokens(text);
        let whole = asked.saturating_add(estimate::text_tokens(&request.system));
        let ratio = self.ratio();
        let call = ModelCall {
            purpose: CallPurpose::Summary,
            target: ModelTarget {
                provider: self.compactor.provider.as_ref(),
                provider_name: &self.compactor.provider_name,
                model_name: &self.compactor.model_name,
                model: &self.compactor.model,
                profile: self.profile.as_deref(),
            },
            request,
            prompt: PromptSize {
                needed: share(ratio.apply(asked), MARGIN),
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
        let called = match core.call(call).await {
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
        let (usage, estimated) = called.usage();
        self.used.tokens = self.used.tokens.plus(usage);
        self.used.estimated |= estimated;
        if matches!(called.ending, Ending::Completed(_)) && !estimated {
            let (provider, model) = (&self.compactor.provider_name, &self.compactor.model_name);
            core.calibrations.learn(provider, model, usage.prompt_tokens(), whole);
        }
        Some(called)
    }

    fn request(&self, text: &str) -> ModelRequest {
        let compactor = self.compactor;
        let core = self.by.core;
        let question = Message {
            id: core.clock.new_id(),
            role: Role::User,
            blocks: vec![Block::text(text)],
            sequence: 0,
            created_at: core.clock.now_ms(),
            provenance: None,
            provider_stop_reason: None,
        };
        let system = match compactor.options.preset {
            Some(Preset::Myclaw) => MYCLAW.to_owned(),
            None => instructions(),
        };
        let messages = compactor.provider.encode_messages(std::slice::from_ref(&question));
        ModelRequest {
            model: compactor.model_name.clone(),
            system,
            messages: vec![messages],
            open_end: true,
            max_tokens: share(compactor.model.context_window, 20)
                .min(MOST_TOKENS)
                .min(compactor.model.max_output_tokens)
                .max(1),
            reasoning_model: compactor.model.reasoning,
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
