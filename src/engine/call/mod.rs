//! The one way in which a model is asked: rate limits, key, budget, request hook, span, usage, cost and attempt row.
//!
//! A caller says what a call is for, whom it asks, with what, and how long it may take. It must never try again: whether and
//! when is the plan's, see `failover`.

mod attempt;
mod bounds;
pub(crate) mod request;
mod run;
mod usage;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::Core;
use super::budgets::Payer;
use super::governor::Pass;
use super::outcome::millis;
use super::sink::EventQueue;
use base::telemetry::{self, Instrument as _};
use model::{
    Attempt as AttemptRow, CallPurpose, Completion, DeltaSink as _, Failure, FailureKind,
    ModelInfo, Provenance, RateLimits, Stop, TokenUsage,
};
use provider::{Credential, ModelRequest, Provider, RequestHook, RequestHost};
use turn::governor::Claim;
use turn::machine::{Event, Interrupt, Reply};
use turn::usage::{Ended, Estimated, Judged, judge};
use turn::{Accumulated, estimate, retry};

use attempt::{Attempt, Reader};
pub(crate) use bounds::Bounds;
pub(crate) use request::RequestTemplate;
pub(crate) use run::Asked;
pub(crate) use usage::RunUsage;
pub(crate) use waits::{NextCall, announce_wait};

/// Whom a call asks.
#[derive(Clone, Copy)]
pub(crate) struct ModelTarget<'a> {
    pub(crate) provider: &'a dyn Provider,
    pub(crate) provider_name: &'a str,
    pub(crate) model_name: &'a str,
    pub(crate) model: &'a ModelInfo,
    pub(crate) profile: Option<&'a str>,
}

/// What the prompt of a call comes to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PromptSize {
    /// As it is compared with rate limits.
    pub(crate) needed: u64,
    /// The worst, for budgets.
    pub(crate) worst: u64,
    /// What stands for it where its provider reports none.
    pub(crate) estimate: Estimated,
}

/// Who looks at the requests of a run, a compaction or a count.
#[derive(Clone, Copy)]
pub(crate) struct HookHost<'a> {
    pub(crate) host: &'a Arc<dyn RequestHost>,
    pub(crate) run_id: &'a str,
}

/// One call of a model.
pub(crate) struct ModelCall<'a> {
    pub(crate) purpose: CallPurpose,
    pub(crate) target: ModelTarget<'a>,
    /// The request, its hook aside.
    pub(crate) request: ModelRequest,
    pub(crate) prompt: PromptSize,
    /// Its number among its run's attempts, from 1.
    pub(crate) number: u32,
    pub(crate) claim: Claim,
    /// `None` for a call that costs nothing.
    pub(crate) payer: Option<Payer<'a>>,
    pub(crate) hook: Option<HookHost<'a>>,
    pub(crate) bounds: &'a Bounds,
    /// Where waits are announced, and the answer of a run is streamed; `None` where there is no run.
    pub(crate) events: Option<&'a Arc<EventQueue>>,
    /// How long it was held back already.
    pub(crate) held: Duration,
}

/// How a call ended.
#[derive(Debug)]
pub(crate) enum Ending {
    Completed(Completion),
    /// The number of tokens; `None` where the API cannot tell.
    Counted(Option<u64>),
    Failed(Failure),
    Interrupted(Interrupt),
}

/// What a call came to.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) ending: Ending,
    /// What was received, whole or cut; `None` where nothing was sent.
    pub(crate) reply: Option<Reply>,
    /// Whether a token of it was emitted.
    pub(crate) emitted: bool,
    /// `None` where nothing was sent.
    pub(crate) attempt: Option<AttemptRow>,
    /// US dollars; `None` where the price is unknown.
    pub(crate) cost: Option<f64>,
}

/// Its profile was refused while the call waited for room: it is to be chosen anew.
#[derive(Debug)]
pub(crate) struct Dismissed {
    /// How long it was held back so far.
    pub(crate) held: Duration,
}

impl Called {
    /// A call that ended before anything was sent.
    pub(crate) fn unsent(ending: Ending) -> Self {
        Self { ending, reply: None, emitted: false, attempt: None, cost: None }
    }

    /// The tokens it used, and whether some of them are estimated.
    pub(crate) fn usage(&self) -> (TokenUsage, bool) {
        let reply = self.reply.as_ref();
        reply.map(|reply| (reply.usage, reply.usage_estimated)).unwrap_or_default()
    }

    /// As the machine takes it; `again` says after how long a failed call is repeated.
    pub(crate) fn into_event(self, again: Option<Duration>) -> Event {
        let Self { ending, reply, emitted, .. } = self;
        match (ending, reply) {
            (Ending::Completed(Completion { stop, stop_raw, .. }), Some(reply)) => {
                Event::Replied { reply, stop, stop_raw }
            }
            (Ending::Failed(failure), partial) => {
                Event::AttemptFailed { failure, partial, emitted, again }
            }
            (Ending::Interrupted(cause), partial) => Event::Interrupted { cause, partial },
            (Ending::Completed(_) | Ending::Counted(_), _) => Event::AttemptFailed {
                failure: Failure::new(
                    FailureKind::Unknown,
                    "no_reply",
                    "the call ended without a reply",
                ),
                partial: None,
                emitted,
                again: None,
            },
        }
    }
}

impl Core {
    /// Asks a model once.
    pub(crate) async fn call(&self, call: ModelCall<'_>) -> Result<Called, Dismissed> {
        let (pass, held) = match self.admit(&call).await {
            Ok((Some(pass), held)) => (pass, held),
            Ok((None, held)) => return Err(Dismissed { held }),
            Err(cause) => return Ok(Called::unsent(Ending::Interrupted(cause))),
        };
        let ModelTarget { profile, model, .. } = call.target;
        let credential = match profile {
            None => None,
            Some(id) => match call.bounds.guard(self.keys.credential(id)).await {
                Ok(Ok(credential)) => Some(credential),
                Ok(Err(failure)) => return Ok(Called::unsent(Ending::Failed(failure))),
                Err(cause) => return Ok(Called::unsent(Ending::Interrupted(cause))),
            },
        };
        let hold = match &call.payer {
            None => None,
            Some(payer) => {
                let worst = (call.prompt.worst, call.request.max_tokens);
                match self.budgets.hold(self, payer.clone(), model, worst).await {
                    Ok(hold) => Some(hold),
                    Err(failure) => return Ok(Called::unsent(Ending::Failed(failure))),
                }
            }
        };
        // Boxed: the futures of runs, compactions and counts have it inside, and stay small.
        let called = Box::pin(self.send(call, credential.as_deref(), pass, held)).await;
        if let Some(hold) = hold {
            hold.settle(called.usage().0.total_tokens, called.cost);
        }
        Ok(called)
    }

    /// Waits until the rate limits have room; no pass where the profile is to be chosen anew.
    async fn admit(&self, call: &ModelCall<'_>) -> Result<(Option<Pass>, Duration), Interrupt> {
        let ModelTarget { provider_name, model_name, profile, .. } = call.target;
        let began = self.clock.instant();
        let who = (provider_name, profile, model_name);
        let mut room = std::pin::pin!(self.governor.pass(who, call.claim, call.prompt.needed));
        let pass = match (&mut room).now_or_never() {
            Some(pass) => pass,
            None => {
                if let Some(events) = call.events {
                    let now = self.clock.now_ms();
                    announce_wait(events, call.next(), FailureKind::RateLimit, None, now);
                }
                call.bounds.guard(room).await?
            }
        };
        let held = match &pass {
            Some(pass) => pass.held,
            None => self.clock.instant().saturating_duration_since(began),
        };
        Ok((pass, call.held.saturating_add(held)))
    }

    /// Sends the request, and makes of what comes back what everybody is to know of it.
    async fn send(
        &self,
        call: ModelCall<'_>,
        credential: Option<&Credential>,
        mut pass: Pass,
        held: Duration,
    ) -> Called {
        let target = call.target;
        let request = ModelRequest { hook: call.request_hook(), ..call.request };
        let message_id = self.clock.new_id();
        let streamed = call.events.filter(|_| call.purpose == CallPurpose::Run);
        let reader = streamed.map(|queue| Reader {
            queue: Arc::clone(queue),
            clock: self.clock.clone(),
            message_id: message_id.clone(),
        });
        pass.sent();
        let mut sink = Attempt::new(reader, pass);
        let began = self.clock.instant();
        let span = telemetry::call_span(
            call.purpose.as_str(),
            target.provider_name,
            target.model_name,
            call.number,
        );
        let asking = async {
            match call.purpose {
                CallPurpose::Run | CallPurpose::Summary => {
                    let asked = target.provider.stream(&request, credential, &mut sink).await;
                    asked.map_or_else(Ending::Failed, Ending::Completed)
                }
                CallPurpose::Count => {
                    let counted = target.provider.count(&request, credential).await;
                    if counted.is_ok() {
                        sink.answered(200, &RateLimits::default());
                    }
                    counted.map_or_else(Ending::Failed, Ending::Counted)
                }
            }
        };
        let asked = call.bounds.guard(asking.instrument(span.clone())).await;
        let ending = asked.unwrap_or_else(Ending::Interrupted);
        let ms = millis(self.clock.instant().saturating_duration_since(began));
        let emitted = sink.emitted();
        let (accumulator, pass) = sink.into_parts();
        let received = accumulator.finish();
        let Judged { usage, estimated } = match call.purpose {
            CallPurpose::Count => Judged::default(),
            CallPurpose::Run | CallPurpose::Summary => {
                used(&received, call.prompt.estimate, &ending)
            }
        };
        let tokens = TokenUsage::from(usage);
        let cost = target.model.cost_of(&tokens, usage.cache_write_hour);
        let was_used = tokens != TokenUsage::default();
        if let Ending::Failed(failure) = &ending {
            pass.failed(&retry::judged(failure), credential.is_some());
        }
        let reported = was_used && !estimated;
        pass.settle(reported.then_some((tokens.prompt_tokens(), tokens.output_tokens)));
        let (ok, status, reason) = verdict(&ending);
        span.in_scope(|| {
            if let Ending::Failed(failure) = &ending {
                let code = failure.code.as_deref().unwrap_or_default();
                let kind = failure.kind.as_str();
                telemetry::call_failed(target.provider_name, kind, code, failure.status);
            }
            telemetry::call_ended(call.purpose.as_str(), call.number, ok, ms, tokens.total_tokens);
        });
        let held = millis(held);
        let attempt = AttemptRow {
            purpose: call.purpose,
            provider: target.provider_name.to_owned(),
            model: target.model_name.to_owned(),
            profile_id: credential.map(|credential| credential.profile_id.clone()),
            ok,
            status,
            reason,
            ms,
            usage: was_used.then_some(tokens),
            usage_estimated: estimated,
            cost: cost.filter(|_| was_used),
            held_ms: (held > 0).then_some(held),
        };
        let reply = Reply {
            message_id,
            blocks: received.blocks,
            provenance: Provenance {
                provider: target.provider_name.to_owned(),
                api: target.provider.api().as_str().to_owned(),
                model: target.model_name.to_owned(),
                response_id: received.response_id,
            },
            usage: tokens,
            usage_estimated: estimated,
        };
        Called { ending, reply: Some(reply), emitted, attempt: Some(attempt), cost }
    }
}

impl<'a> ModelCall<'a> {
    fn next(&self) -> NextCall<'a> {
        NextCall {
            purpose: self.purpose,
            provider: self.target.provider_name,
            model: self.target.model_name,
            profile: self.target.profile,
            attempt: self.number,
        }
    }

    fn request_hook(&self) -> Option<RequestHook> {
        self.hook.map(|HookHost { host, run_id }| RequestHook {
            host: Arc::clone(host),
            provider: self.target.provider_name.to_owned(),
            run_id: run_id.to_owned(),
            attempt: self.number,
            purpose: self.purpose,
        })
    }
}

/// What a call is taken to have used.
fn used(received: &Accumulated, prompt: Estimated, ending: &Ending) -> Judged {
    let tokens = estimate::block_tokens(&received.blocks);
    let text = tokens.saturating_sub(estimate::uncertain_tokens(&received.blocks));
    let ended = match ending {
        Ending::Completed(_) | Ending::Counted(_) => Ended::Whole,
        Ending::Failed(_) | Ending::Interrupted(_) => Ended::Cut,
    };
    judge(received.usage, prompt, Estimated { tokens, text }, ended)
}

/// Whether a call was answered, with what status, and why it was not.
fn verdict(ending: &Ending) -> (bool, Option<u16>, Option<FailureKind>) {
    match ending {
        Ending::Completed(completion) => {
            let refused = matches!(completion.stop, Stop::Refusal | Stop::ContentFilter);
            (true, Some(completion.status), refused.then_some(FailureKind::Refusal))
        }
        Ending::Counted(_) => (true, Some(200), None),
        Ending::Failed(failure) => (false, failure.status, Some(failure.kind)),
        Ending::Interrupted(Interrupt::Abort) => (false, None, Some(FailureKind::Aborted)),
        Ending::Interrupted(Interrupt::Timeout) => (false, None, Some(FailureKind::Timeout)),
    }
}
